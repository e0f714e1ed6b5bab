// Command orbweaver crawls the web politely into standard archives, and continues after a
// crash without losing a URL. Each subcommand is in the file of its name: its flags, its
// help and its messages. The packages below internal do the work.
//
// The settings of "orbweaver crawl" come from flags, ORBWEAVER_ variables and YAML files
// (settings.go). No package below cmd reads the environment.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	// The program runs on a machine that has nothing else, such as a container without a system. There it uses its own
	// time zones and its own certificate authorities (those of Mozilla).
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/cost"
	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Exit codes of all commands. exitCodes says what each means.
const (
	exitDone      = 0
	exitOther     = 1
	exitDiskFull  = 3
	exitConfig    = 4
	exitSignal    = 11
	exitPageLimit = 12
	exitForced    = 13
	exitSizeLimit = 14
	exitTimeLimit = 15
	exitNothing   = 16
	exitFatal     = 17
)

// exitCodes explains the exit codes to "crawl --help" (brief) and to
// docs/reference/exit-codes.md (meaning, todo).
var exitCodes = []struct {
	code                 int
	brief, meaning, todo string
}{
	{exitDone, "done", "The command has done its work. A crawl has no URL left to visit, or only links that " +
		"the operator has blocked or excluded; or its agent has left the cluster.",
		"Nothing."},
	{exitOther, "other error", "Any other error. Also: the answer is no. `check scope` found a URL out of scope, " +
		"`check robots` found one forbidden, `warc verify` found damage, " +
		"`store check` found a store that a crawl cannot use, `report --fail-on broken` found broken links, " +
		"a command that reads crawls (`export`, `graph build`, `links`, `report`, `tables`, `warc index`, " +
		"`warc ls`) left out what damaged or missing files do not give, `export` wrote a WACZ with damaged ones, " +
		"or an agent has not done what `ctl` told it.",
		"Read the message."},
	{exitDiskFull, "disk full", "The disk is full, or less is free than `--min-free-disk`. No accepted URL is lost.",
		"Make room, then continue with `--resume`."},
	{exitConfig, "bad configuration", "A flag, a variable, a file or the command line is wrong, the file system " +
		"refuses a path to this user, another process has the crawl directory open, or the cluster refuses the agent.",
		"The message says what would be right."},
	{exitSignal, "stopped by a signal", "The crawl stopped after SIGINT, SIGTERM or SIGHUP, after \"ctl stop\", or " +
		"because its output was closed. It has saved its state.",
		"Continue with `--resume`."},
	{exitPageLimit, "page limit", "The crawl reached `--page-limit`.",
		"To fetch more, continue with `--resume` and a higher `--page-limit`."},
	{exitForced, "forced", "A second SIGINT or SIGTERM ended the crawl at once. No accepted URL is lost.",
		"Continue with `--resume`."},
	{exitSizeLimit, "size limit", "The crawl reached `--size-limit`.",
		"To fetch more, continue with `--resume` and a higher `--size-limit`."},
	{exitTimeLimit, "time limit", "The run reached `--time-limit`.",
		"Continue with `--resume`; the time counts anew for each run."},
	{exitNothing, "nothing could be fetched", "No seed gave a page (2xx) in any run.",
		"Read the message: it says why, and what to do. More: " +
			"[exit code 16](../troubleshooting.md#exit-code-16-nothing-could-be-fetched)."},
	{exitFatal, "fatal", "The disk or the state of the crawl is broken, or the proxy stayed unreachable. " +
		"The message names the file.",
		"Repair the cause, then continue with `--resume`."},
}

// exitBriefs lists the exit codes on one line.
func exitBriefs() string {
	var briefs []string
	for _, e := range exitCodes {
		briefs = append(briefs, fmt.Sprintf("%d %s", e.code, e.brief))
	}
	return strings.Join(briefs, ", ")
}

// An exitError ends the program with an exit code. If text is empty, the program prints
// nothing.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

type commands struct {
	Number kong.VersionFlag `name:"version" short:"v" aliases:"V" help:"Print the version."`

	Crawl    CrawlCmd    `cmd:"" help:"Crawl from seeds into a standard archive. Ctrl-C saves; --resume continues."`
	Demo     DemoCmd     `cmd:"" help:"Serve a small web from inside the program and crawl it. Start here."`
	Report   ReportCmd   `cmd:"" help:"Print what a crawl found as tables, and write it as an HTML page."`
	Check    CheckCmd    `cmd:"" help:"Explain how the crawler treats a URL, a scope, a robots.txt or a page."`
	Cluster  ClusterCmd  `cmd:"" help:"Make the keys of agents and coordinators, or ask the coordinators for their state."`
	Ctl      CtlCmd      `cmd:"" help:"Show the status of a running crawl or a host; block a host or drop its links."`
	Warc     WarcCmd     `cmd:"" help:"List, verify, index and extract WARC files of any origin."`
	Links    LinksCmd    `cmd:"" help:"List which page links to which URL, from a crawl with --links."`
	Replay   ReplayCmd   `cmd:"" help:"Show archived pages in a browser on this machine, without the live web."`
	Export   ExportCmd   `cmd:"" help:"Write the archived pages as files with relative links, to read them offline."`
	Tables   TablesCmd   `cmd:"" help:"Write the index, logs and links of crawls as Parquet tables."`
	Plan     PlanCmd     `cmd:"" help:"Say how long a crawl takes, how many agents are best, and what they need."`
	Classify ClassifyCmd `cmd:"" help:"Train and test a model that gives pages a topic, or ask it for the topic of a page."`
	Store    StoreCmd    `cmd:"" help:"Try an object store: may a crawl be kept there, and what is missing?"`
	Graph    GraphCmd    `cmd:"" help:"Make the graph of a crawl's links; PageRank; compare ranks."`
	Testweb  TestwebCmd  `cmd:"" help:"Serve a web on this machine to test crawlers, and report how they behaved."`
	Version  VersionCmd  `cmd:"" help:"Print the version, or the licences of the libraries in the program."`
	Help     HelpCmd     `cmd:"" help:"Explain a command, its flags and its arguments."`

	Frontier    FrontierCmd    `cmd:"" help:"Keep the URLs of other crawlers, such as StormCrawler (URL Frontier API)."`
	Coordinator CoordinatorCmd `cmd:"" help:"Assign hosts to the agents of a crawl with --partition=sites."`

	Completion   CompletionCmd   `cmd:"" help:"Print a script with which bash, zsh or fish completes command lines."`
	Man          ManCmd          `cmd:"" help:"Print the manual page of a command, or write all of them."`
	Complete     CompleteCmd     `cmd:"" name:"__complete" hidden:"" passthrough:""`
	TestwebEnter TestwebEnterCmd `cmd:"" hidden:"" help:"Furnish the network namespace of testweb and run its command."`
}

const description = `Orbweaver downloads the web politely and keeps the pages in standard archives.

Begin with "orbweaver demo", which needs no network. Then:

  orbweaver crawl --contact you@example.org https://example.org/

You can also set each flag of crawl in the environment (--page-limit is
ORBWEAVER_PAGE_LIMIT) or in a YAML file that --config names (page-limit: 100).
A flag overrides the environment, and the environment overrides the file.`

//go:generate go test . -run TestReference -update

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// newParser returns a parser of the command line into c. It knows the commands of shown: all of c, or what c.only
// returns. Flags that the command line does not set come from given. If the parser answers by itself, as for --help, it
// calls exit.
func newParser(shown any, c *commands, given *elsewhere, stdout, stderr *cli.Output, exit func(code int)) (*kong.Kong,
	error) {
	c.Ctl.Verbs = verbCommands()
	return cli.Parser("orbweaver", description, shown, stdout, stderr, exit,
		kong.Bind(c, given),
		kong.Resolvers(given),
		kong.Vars{"version": node.Version, "scopes": strings.Join(scope.Kinds(), ","),
			"boundaries":            strings.Join(membership.Boundaries(), ","),
			"hashes":                strings.Join(membership.ContentHashes(), ","),
			"on_losses":             strings.Join(membership.OnLosses(), ","),
			"partitions":            strings.Join(membership.Partitions(), ","),
			"assignments":           strings.Join(coordination.Assignments(), ","),
			"plan_models":           strings.Join(cost.Names(), ","),
			"classify_kinds":        strings.Join(classify.Kinds(), ","),
			"classify_all_features": strings.Join(classify.AllFeatures(), ","),
			"damping":               fmt.Sprint(graph.Damping),
			"tolerance":             fmt.Sprint(graph.Tolerance),
			"iterations":            fmt.Sprint(graph.Iterations)},
		verbArguments,
		cli.Brief{"crawl": briefly},
		crawlHelp,
		longHelp,
		testwebHelp,
		reportHelp,
		planHelp,
		classifyHelp,
		graphHelp,
	)
}

// run runs the program and returns its exit code. It escapes control characters in all
// output (see cli.Output).
func run(args []string, stdout, stderr io.Writer) int {
	out, errs := cli.NewOutput(stdout), cli.NewOutput(stderr)
	defer out.Flush()
	defer errs.Flush()
	return runWith(args, out, errs)
}

func runWith(args []string, stdout, stderr *cli.Output) int {
	var c commands
	args, c.Testweb.Command = testwebCommand(args)
	given := &elsewhere{environ: os.Environ()}
	return runParser(args, stderr, func(exit func(code int)) (*kong.Kong, error) {
		return newParser(c.only(args), &c, given, stdout, stderr, exit)
	})
}

// only returns c without the commands that args do not name. It returns all of c if they name none, or if they name
// man, which describes all. To make the parser of one command takes a fraction of the time of all.
func (c *commands) only(args []string) any {
	if len(args) == 0 || args[0] == "man" {
		return c
	}
	all := reflect.TypeFor[commands]()
	var fields []reflect.StructField
	found := false
	for i := range all.NumField() {
		f := all.Field(i)
		name := strings.ToLower(f.Name)
		_, command := f.Tag.Lookup("cmd")
		switch {
		case command && name == args[0]:
			found = true
		case command && !(name == "crawl" && args[0] == "check"): // check scope reads settings of crawl
			f.Tag = `kong:"-"`
		}
		fields = append(fields, f)
	}
	if !found {
		return c
	}
	return reflect.ValueOf(c).Convert(reflect.PointerTo(reflect.StructOf(fields))).Interface()
}

// runParser runs the command that args name, with the parser that parser returns, and returns the exit
// code.
func runParser(args []string, stderr *cli.Output, parser func(exit func(code int)) (*kong.Kong, error)) int {
	ctx, code, err := cli.Parse(args, otherFlags, parser)
	if err != nil {
		fmt.Fprintln(stderr, "orbweaver:", words(err))
		mistake, bad := (*cli.Mistake)(nil), (*input.ConfigError)(nil)
		if errors.As(err, &mistake) && !errors.As(err, &bad) {
			fmt.Fprintf(stderr, "See \"%s\".\n", mistake.Help)
		}
		return exitConfig
	}
	if ctx == nil {
		return code
	}
	return exitCode(ctx.Run(), stderr)
}

// words returns the text of an error. It names settings by their flags.
func words(err error) string {
	return input.Text(err, func(field string) string { return "--" + field })
}

// exitCode prints err and returns its documented exit code.
func exitCode(err error, stderr io.Writer) int {
	var exit *exitError
	var bad *input.ConfigError
	var state *crawldir.StateError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.text != "" {
			fmt.Fprintln(stderr, "orbweaver:", exit.text)
		}
		return exit.code
	case errors.As(err, &bad), errors.Is(err, disk.ErrLocked):
		fmt.Fprintln(stderr, "orbweaver:", words(err))
		return exitConfig
	case disk.IsFull(err):
		fmt.Fprintln(stderr, "orbweaver: the disk is full:", err)
		fmt.Fprintln(stderr, "No accepted URL is lost. Free disk space, then continue a crawl with --resume, or run "+
			"another command again.")
		return exitDiskFull
	}
	if text, ok := disk.Refusal("", err); ok && !errors.As(err, &state) {
		fmt.Fprintln(stderr, "orbweaver:", text)
		return exitConfig
	}
	fmt.Fprintln(stderr, "orbweaver:", err)
	if errors.As(err, &state) {
		return exitFatal
	}
	return exitOther
}
