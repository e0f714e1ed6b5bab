// Command orblab runs Orbweaver's experiments and writes their results as text, data and
// pictures. Each experiment is in the file of its name, or in command.go if its flags are all that there is to say.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/lab"
)

// The exit codes are those of orbweaver.
const (
	exitOther  = 1
	exitConfig = 4
	exitSignal = 11
)

// A usageError is a wrong flag. Its text names the flag and says what would be right.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errInterrupted reports that a signal ended the experiment.
var errInterrupted = errors.New("interrupted")

type commands struct {
	Throughput ThroughputCmd          `cmd:"" help:"${throughput}"`
	Seen       SeenCmd                `cmd:"" help:"${seen}"`
	Frontier   FrontierCmd            `cmd:"" help:"${frontier}"`
	Ring       RingCmd                `cmd:"" help:"${ring}"`
	Quality    command[lab.Quality]   `cmd:"" help:"${quality}"`
	Freshness  command[lab.Freshness] `cmd:"" help:"${freshness}"`
	Scaling    command[lab.Scaling]   `cmd:"" help:"${scaling}"`
	Rate       command[lab.Speed]     `cmd:"" help:"${rate}"`
	TwoLevel   TwoLevelCmd            `cmd:"" name:"twolevel" help:"${twolevel}"`
	Topic      TopicCmd               `cmd:"" help:"${topic}"`
	Near       command[lab.Near]      `cmd:"" help:"${near}"`
	Focused    command[lab.Focused]   `cmd:"" help:"${focused}"`
	Chaos      ChaosCmd               `cmd:"" help:"${chaos}"`
	Bare       BareCmd                `cmd:"" passthrough:"" help:"Run the yardstick: a minimal loop that fetches, decodes, scans and archives a list of URLs."`

	Render RenderCmd `cmd:"" help:"Write text and picture again from the data of earlier runs."`

	Web           WebCmd           `cmd:"" hidden:"" help:"Serve the web of an experiment."`
	SeenStore     SeenStoreCmd     `cmd:"" hidden:"" help:"Run one store of the experiment seen."`
	ChaosStory    ChaosStoryCmd    `cmd:"" hidden:"" help:"Tell stories of the experiment chaos."`
	FrontierQueue FrontierQueueCmd `cmd:"" hidden:"" help:"Run the frontier of the experiment frontier."`
}

const description = `Orblab runs Orbweaver's experiments.

  orblab throughput --quick
  orblab seen --quick --out results

Each experiment prints its figures and writes NAME.md, NAME.csv and NAME.svg.
"orblab EXPERIMENT --help" explains what it measures.`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// newParser returns the parser of the command line into c. If the parser answers by itself,
// as for --help, it calls exit.
func newParser(c *commands, stdout, stderr *cli.Output, exit func(code int)) (*kong.Kong, error) {
	return cli.Parser("orblab", description, c, stdout, stderr, exit,
		kong.Vars{"kinds": strings.Join(lab.Kinds(), ", "), "stores": strings.Join(lab.StoreNames(), ", ")},
		help,
	)
}

// run runs the command line args and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	out, errs := cli.NewOutput(stdout), cli.NewOutput(stderr)
	defer out.Flush()
	defer errs.Flush()
	var c commands
	ctx, code, err := cli.Parse(args, nil, func(exit func(code int)) (*kong.Kong, error) {
		return newParser(&c, out, errs, exit)
	})
	if err != nil {
		fmt.Fprintf(errs, "orblab: %v\nSee \"orblab --help\" and \"orblab EXPERIMENT --help\".\n", err)
		return exitConfig
	}
	if ctx == nil {
		return code
	}
	err = ctx.Run()
	usage := (*usageError)(nil)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		code = exitConfig
	case errors.Is(err, errInterrupted):
		code = exitSignal
	default:
		code = exitOther
	}
	fmt.Fprintln(errs, "orblab:", err)
	return code
}
