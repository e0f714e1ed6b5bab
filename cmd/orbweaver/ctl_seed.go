package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
)

// CtlSeedCmd implements "ctl seed".
type CtlSeedCmd struct {
	URLs    []string `arg:"" optional:"" name:"url" help:"Add these URLs."`
	File    string   `help:"Add the URLs of this file, one on each line; - is the standard input." placeholder:"FILE"`
	JSON    bool     `name:"json" help:"Print what becomes of each seed as a JSON object on a line, then the orders."`
	WhyFlag `embed:""`
}

// Help explains what becomes of seeds.
func (CtlSeedCmd) Help() string {
	return `Seeds extend the scope as the seeds of the start do, at all agents. Each seed goes
to the agent of its host. When the command answers, the seeds are on the disk.

  new      the crawl will fetch it
  known    the crawl has fetched it, or it waits already
  taken    the crawl has it, and will find out whether it is new
  refused  it cannot be a seed; the command exits with code 1

Pages that were fetched before are not searched again for links that the larger
scope lets in.

  orbweaver ctl seed https://www.example.org/ --why "a request of the library"
  orbweaver ctl seed --file more.txt`
}

const (
	// seedsAtOnce bounds the seeds of one call, and seedBytes their bytes.
	seedsAtOnce = 1000
	seedBytes   = 256 << 10
	// seedsNamed is the number of seeds up to which each is named.
	seedsNamed = 20
)

// A seeding gives URLs to the crawl, and prints what becomes of them.
type seeding struct {
	// give passes URLs on.
	give  func(ctx context.Context, urls []string) (*pb.AddSeedsResponse, error)
	out   io.Writer
	json  bool
	dir   string
	noun  string // for one URL
	next  []string
	bytes int

	seeds  []*pb.Seed // the first ones
	counts map[string]int
	orders []string     // that were given with the URLs
	what   string       // what agents may not know yet
	told   []*pb.Answer // which agents know it
}

// Run adds the seeds.
func (s CtlSeedCmd) Run(c *commands, out io.Writer) error {
	if len(s.URLs) == 0 && s.File == "" {
		return bad("no seeds: give URLs, or a file of URLs with --file")
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		return seedAll(ctx, &seeding{out: out, json: s.JSON, dir: c.Ctl.Dir, noun: "seed", what: "the new scope",
			give: func(ctx context.Context, urls []string) (*pb.AddSeedsResponse, error) {
				return o.AddSeeds(ctx, &pb.AddSeedsRequest{Urls: urls, Why: s.Why})
			}}, s.URLs, s.File)
	})
}

// seedAll gives URLs, and then those of a file unless its name is empty.
func seedAll(ctx context.Context, g *seeding, urls []string, file string) error {
	g.counts = map[string]int{}
	for _, u := range urls {
		if err := g.add(ctx, u); err != nil {
			return err
		}
	}
	if file != "" {
		add := func(_ string, _ int, u string) error { return g.add(ctx, u) }
		if err := eachSeed("--file", file, add); err != nil {
			return err
		}
	}
	if err := g.send(ctx); err != nil {
		return err
	}
	return g.conclude()
}

func (g *seeding) add(ctx context.Context, u string) error {
	g.next = append(g.next, u)
	if g.bytes += len(u); len(g.next) < seedsAtOnce && g.bytes < seedBytes {
		return nil
	}
	return g.send(ctx)
}

// send sends the collected seeds, and prints those that are refused.
func (g *seeding) send(ctx context.Context) error {
	if len(g.next) == 0 {
		return nil
	}
	r, err := g.give(ctx, g.next)
	if err != nil {
		return err
	}
	g.next, g.bytes = nil, 0
	g.orders = append(g.orders, r.Orders...)
	if len(r.Told) > 0 {
		g.told = r.Told
	}
	for _, s := range r.Seeds {
		g.counts[s.Result]++
		switch {
		case g.json:
			line, err := shortLine(s)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(g.out, line); err != nil {
				return err
			}
		case s.Result == "refused" || s.Text != "":
			if err := g.name(s); err != nil {
				return err
			}
		case len(g.seeds) <= seedsNamed:
			g.seeds = append(g.seeds, s)
		}
	}
	return nil
}

// name prints what has become of a seed.
func (g *seeding) name(s *pb.Seed) error {
	line := fmt.Sprintf("%s: %s", readout.Cell(s.Url), s.Result)
	if s.Agent != "" {
		line += " at " + readout.Cell(s.Agent)
	}
	if s.Text != "" {
		line += ": " + readout.Line(s.Text)
	}
	_, err := fmt.Fprintln(g.out, line)
	return err
}

// conclude prints the counts. The error says that seeds were refused, or that agents do not know the orders yet.
func (g *seeding) conclude() error {
	total := 0
	var parts []string
	for _, result := range []string{"new", "known", "taken", "refused"} {
		if n := g.counts[result]; n > 0 {
			total += n
			parts = append(parts, humanize.Comma(int64(n))+" "+result)
		}
	}
	if g.json {
		if g.noun == "seed" && len(g.orders)+len(g.told) > 0 {
			line, err := shortLine(&pb.AddSeedsResponse{Orders: g.orders, Told: g.told})
			if err != nil {
				return err
			}
			io.WriteString(g.out, line)
		}
	} else {
		if len(g.seeds) <= seedsNamed {
			for _, s := range g.seeds {
				if err := g.name(s); err != nil {
					return err
				}
			}
		}
		text := english.Plural(total, g.noun, "") + ": " + strings.Join(parts, ", ")
		if n := len(g.orders); n > 0 {
			text += fmt.Sprintf("; %s the scope, see \"orbweaver ctl%s orders\"",
				english.Plural(n, "order extends", "orders extend"), dirFlag(g.dir))
		}
		fmt.Fprintln(g.out, text)
	}
	unknown := ignorant(g.told, g.what)
	n := g.counts["refused"]
	if n == 0 {
		return unknown
	}
	text := english.Plural(n, g.noun+" was", g.noun+"s were") + " refused"
	if unknown != nil {
		text += "\n" + unknown.Error()
	}
	return &exitError{exitOther, text}
}
