package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// An agentGroup is agents that crawl together as processes, each on a line of its own.
type agentGroup struct {
	// agents is their number; 0: one agent without a cluster.
	agents int
	// webs is the number of web servers, which take turns. All have the same web.
	webs int
	spec WebSpec
	// web is served by this process, in place of webs and spec, if it is not nil.
	web *web
	// pagesMove reports that an agent may keep pages that another agent has fetched.
	pagesMove bool
	// limit ends the crawl; 0: it ends by itself.
	limit time.Duration
	// pages ends the crawl when all agents together have so many; 0: it ends by itself.
	pages int64
	// flags are added to those of each agent.
	flags []string
	// coordinated starts a coordinator, and names it to the agents. together sets its process.
	coordinated bool
	coordinator *process
}

// scaled is an agent of an agentGroup.
type scaled struct {
	name, dir string
	web       *web
	process   *process
	mu        sync.Mutex // guards progress
	progress  []paged
	summary   report.Summary
	usage     Usage
}

// paged is the number of pages and bytes of an agent at a time, and what it has sent to other
// agents.
type paged struct {
	at           time.Time
	pages, bytes int64
	sent         report.Exchange
}

// together lets the agents crawl until they finish or reach a limit. Then it calls f with them.
func (c *agentGroup) together(ctx context.Context, t *Trial, f func([]*scaled) error) error {
	return t.serve(ctx, c.webs, c.spec, func(webs []*web, dir string) (err error) {
		addrs, err := testweb.FreeAddrs(max(1, c.agents) + 1)
		if err != nil {
			return err
		}
		if c.web != nil {
			webs = []*web{c.web}
		}
		flags := c.flags
		if c.coordinated {
			addr := addrs[len(addrs)-1]
			p, err := coordinate(ctx, t.Orbweaver, filepath.Join(dir, "coordinator"), addr, webs[0].DNS)
			if err != nil {
				return err
			}
			defer func() {
				p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
				_, perr := p.wait()
				err = errors.Join(err, perr)
			}()
			c.coordinator = p
			flags = append(flags[:len(flags):len(flags)], "--partition", "sites", "--coordinator", addr)
		}
		all, err := c.start(ctx, t.Orbweaver, dir, webs, addrs, flags)
		if err = errors.Join(wait(all), err, ctx.Err()); err != nil {
			return err
		}
		if err := held(ctx, all, c.pagesMove); err != nil {
			return err
		}
		return f(all)
	})
}

// start starts the agents. After an error it kills those that it has started.
func (c *agentGroup) start(ctx context.Context, program, dir string, served []*web, addrs, flags []string) (
	all []*scaled, err error) {
	var sum atomic.Int64
	var enough sync.Once
	full := make(chan struct{})
	for i := range max(1, c.agents) {
		a := &scaled{name: fmt.Sprintf("agent-%d", i+1), web: served[i%len(served)]}
		a.dir = filepath.Join(dir, a.name)
		more := flags
		if c.agents > 0 {
			more = append(clusterFlags(a.name, addrs[i], addrs[0], c.agents), more...)
		}
		err := a.start(ctx, program, c.limit, more, func(pages int64) {
			if sum.Add(pages) >= c.pages && c.pages > 0 {
				enough.Do(func() { close(full) })
			}
		})
		if err != nil {
			for _, b := range all {
				b.process.cmd.Process.Kill()
			}
			return all, err
		}
		all = append(all, a)
	}
	for _, a := range all {
		go func() { // ends with the agent
			select {
			case <-full:
				a.process.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			case <-a.process.over:
			}
		}()
	}
	return all, nil
}

// clusterFlags are the flags of an agent of a cluster. Others join at the address of the first one.
func clusterFlags(name, listen, first string, agents int) []string {
	return []string{"--name", name, "--listen", listen, "--join", first, "--agents", strconv.Itoa(agents)}
}

// coordinate starts a coordinator, and waits until it leads.
func coordinate(ctx context.Context, program, dir, addr, dns string) (*process, error) {
	return launchUntil(ctx, program, []string{"coordinator", "--json", "--dir", dir, "--listen", addr, "--dns", dns},
		func(line []byte) bool { return bytes.Contains(line, []byte(`"leads":true`)) })
}

// wait waits for the end of all agents. If one fails, it kills the others, because they may
// wait for the failed agent.
func wait(all []*scaled) error {
	var running sync.WaitGroup
	var failed sync.Once
	var first error
	for _, a := range all {
		running.Go(func() {
			u, err := a.process.wait(exitTimeLimit, exitSignal)
			a.usage = u
			if err == nil {
				return
			}
			failed.Do(func() {
				first = fmt.Errorf("%s: %w", a.name, err)
				for _, b := range all {
					b.process.cmd.Process.Kill()
				}
			})
		})
	}
	running.Wait()
	return first
}

// start starts the agent. more is called with the number of new pages of each line of progress.
func (a *scaled) start(ctx context.Context, program string, limit time.Duration, flags []string,
	more func(pages int64)) (err error) {
	flags = append([]string{"--memory", scalingMemory, "--time-limit", limit.String()}, flags...) // 0 means no limit
	a.process, err = a.web.crawl(ctx, program, a.dir, "0", func(l progressLine) {
		a.mu.Lock()
		last := int64(0)
		if n := len(a.progress); n > 0 {
			last = a.progress[n-1].pages
		}
		a.progress = append(a.progress, paged{time.Now(), l.Pages, l.Bytes, l.Exchange})
		a.mu.Unlock()
		more(l.Pages - last)
	}, flags...)
	return err
}

// held checks the crawl by the webs' reports and the agents' own: no page was missed or fetched
// twice, and no host was visited by two agents. If pages move, agents may share pages and hosts.
func held(ctx context.Context, all []*scaled, pagesMove bool) error {
	owner := map[string]string{}
	for _, a := range all {
		if err := readSummary(a.dir, &a.summary); err != nil {
			return err
		}
		if _, err := a.web.judge(ctx, a.summary.StopReason, pagesMove); err != nil {
			return err
		}
		if pagesMove {
			continue
		}
		hosts, err := table(a.dir, "hosts.csv")
		if err != nil {
			return err
		}
		for _, row := range hosts[1:] {
			h := row[0]
			if other, ok := owner[h]; ok {
				return fmt.Errorf("%w: host %s, by %s and %s", ErrScaling, h, other, a.name)
			}
			owner[h] = a.name
		}
	}
	return nil
}

// counted are an agent's counts at a time.
type counted struct {
	pages, received        float64
	Links, Keys, Bytes     float64
	ByCall, Calls, Answers map[string]float64
}

// crawledAt reports whether a time is between two lines of progress.
func (a *scaled) crawledAt(when time.Time) bool {
	n := len(a.progress)
	return n > 0 && !when.Before(a.progress[0].at) && when.Before(a.progress[n-1].at)
}

// at returns the agent's counts at a time, interpolated between two lines of progress, or the last
// one and the summary.
func (a *scaled) at(when time.Time) counted {
	end := paged{pages: a.summary.Pages, bytes: a.summary.Bytes}
	if a.summary.Exchange != nil {
		end.sent = *a.summary.Exchange
	}
	if n := len(a.progress); n > 0 {
		end.at = a.progress[n-1].at.Add(time.Second)
	}
	var before paged
	after := end
	i, _ := slices.BinarySearchFunc(a.progress, when, func(p paged, when time.Time) int { return p.at.Compare(when) })
	if i < len(a.progress) {
		after = a.progress[i]
	}
	if i > 0 {
		before = a.progress[i-1]
	}
	share := 1.0
	if d := after.at.Sub(before.at); !before.at.IsZero() && d > 0 {
		share = min(1, float64(when.Sub(before.at))/float64(d))
	}
	at := func(from, to int64) float64 { return float64(from) + share*float64(to-from) }
	each := func(from, to map[string]int64) map[string]float64 {
		m := map[string]float64{}
		for _, calls := range []map[string]int64{from, to} {
			for call := range calls {
				m[call] = at(from[call], to[call])
			}
		}
		return m
	}
	b, e := before.sent, after.sent
	return counted{
		pages: at(before.pages, after.pages), received: at(before.bytes, after.bytes),
		Links: at(b.Links, e.Links), Keys: at(b.Keys, e.Keys), Bytes: at(b.Bytes, e.Bytes),
		ByCall: each(b.ByCall, e.ByCall), Calls: each(b.Calls, e.Calls), Answers: each(b.Answers, e.Answers),
	}
}
