package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// demoAgents is the number of agents of a demo with --partition, and demoMemory what each of them gets.
const (
	demoAgents = 3
	demoMemory = 256 << 20
)

// agentDir returns the crawl directory of an agent, from 1 on, and its name.
func (c *DemoCmd) agentDir(i int) (dir, name string) {
	name = fmt.Sprintf("a%d", i)
	return filepath.Join(c.Dir, name), name
}

// coordinatorDir returns the directory of the demo's coordinator.
func (c *DemoCmd) coordinatorDir() string { return filepath.Join(c.Dir, "coordinator") }

// onlyDemos refuses directories with crawls that are no demos.
func (c *DemoCmd) onlyDemos() error {
	if c.Partition == "" {
		return onlyDemo(c.Dir)
	}
	for i := range demoAgents {
		dir, _ := c.agentDir(i + 1)
		if err := onlyDemo(dir); err != nil {
			return err
		}
	}
	if c.Partition != membership.PartitionSites {
		return nil
	}
	// A coordinator's directory has no mark of a demo. So there must be a demo's agent beside it.
	dir, _ := c.agentDir(1)
	there, err := crawldir.HoldsCrawl(nil, dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.coordinatorDir()); err == nil && !there {
		return bad("%s exists and belongs to no demo, and a demo would delete it; choose another --dir",
			c.coordinatorDir())
	}
	return nil
}

// coordinate starts the coordinator of a demo. It calls fail if the coordinator ends with an error. stop ends the
// coordinator and waits for it.
func (c *DemoCmd) coordinate(web *testweb.Web, fail func(error)) (n *coordination.Coordinator, stop func() error,
	err error) {
	if err := os.RemoveAll(c.coordinatorDir()); err != nil {
		return nil, nil, err
	}
	cfg := coordination.Config{Version: node.Version, Dir: c.coordinatorDir(), Listen: "127.0.0.1:0"}
	cfg.DNS.Servers, cfg.DNS.HostsFile = []string{web.DNSAddr()}, "-"
	if n, err = coordination.Open(cfg); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.Run(ctx); err != nil {
			fail(err)
		}
	}()
	return n, func() error { cancel(); <-ended; return n.Close() }, nil
}

// together crawls the web with several agents, and shows them as one crawl.
func (c *DemoCmd) together(alone node.Config, web *testweb.Web, out io.Writer) (err error) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(node.RuntimeLimit(demoAgents * demoMemory)))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	d := &display{out: out, json: c.JSON, quiet: c.Quiet}
	d.open(cancel)
	unwatch := watchSignals(d, func() { cancel(nil) })
	defer unwatch()
	stopShow := d.show()
	defer stopShow(false)

	addrs, err := testweb.FreeAddrs(demoAgents)
	if err != nil {
		return err
	}
	var coordinator *coordination.Coordinator
	var coordinators []string
	if c.Partition == membership.PartitionSites {
		var stop func() error
		if coordinator, stop, err = c.coordinate(web, func(err error) { cancel(err) }); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		coordinators = []string{coordinator.Addr()}
		d.note("coordinator: assigns hosts at " + coordinators[0])
	}
	var agents agentGroup
	defer func() { err = errors.Join(err, agents.close()) }()
	for i, addr := range addrs {
		cfg := alone
		dir, name := c.agentDir(i + 1)
		cfg.Dir, cfg.MemoryBytes, cfg.Note = dir, demoMemory, func(text string) { d.note(name + ": " + text) }
		cfg.Archive.Agent = name
		cfg.Cluster = &membership.Config{Name: name, Capacity: 1, Listen: addr, Partition: c.Partition, Replicas: 2,
			Agents: demoAgents, Recovery: 2, Coordinators: coordinators}
		if i > 0 {
			cfg.Cluster.Join = addrs[:1]
		}
		a, err := node.Open(cfg)
		if err != nil {
			return err
		}
		agents = append(agents, a)
	}
	d.shows(agents)
	results, errs := make([]node.Result, len(agents)), make([]error, len(agents))
	var wg sync.WaitGroup
	for i, a := range agents {
		wg.Go(func() {
			if results[i], errs[i] = a.Run(ctx); errs[i] != nil {
				cancel(errs[i]) // the others would wait for it
			}
		})
	}
	wg.Wait()
	err = errors.Join(errs...)
	stopShow(err == nil)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if !errors.Is(cause, context.Canceled) && !errors.Is(cause, crawl.ErrOutputClosed) {
			return cause // of the coordinator
		}
		return &exitError{code: exitSignal}
	}
	for _, r := range results {
		if c.JSON {
			if err := json.NewEncoder(out).Encode(r.Summary); err != nil {
				return err
			}
		}
	}
	if !c.Quiet && !c.JSON {
		c.conclude(out, results, web)
		if coordinator != nil {
			s := coordinator.Status()
			fmt.Fprintf(out, "The coordinator has assigned %s in %s entries.\n", plural(int64(s.Hosts), "host"),
				humanize.Comma(int64(s.Entries)))
		}
		dir, _ := c.agentDir(1)
		fmt.Fprintf(out, "\nEach agent has an archive of its own. That of a1:\n")
		c.next(out, dir)
	}
	return nil
}

// conclude prints what each agent has done.
func (c *DemoCmd) conclude(out io.Writer, results []node.Result, web *testweb.Web) {
	fmt.Fprintln(out, "\nThe crawl has finished: no agent has a URL left.")
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	if c.Partition == membership.PartitionTopic {
		c.byTopic(w, results)
		results = nil
	} else {
		fmt.Fprintln(w, "AGENT\tHOSTS\tPAGES\tRECEIVED\tLINKS SENT\t")
	}
	for i, r := range results {
		s, sent := r.Summary, int64(0)
		if s.Exchange != nil {
			sent = s.Exchange.Links
		}
		_, name := c.agentDir(i + 1)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t\n", name, s.PageHosts, humanize.Comma(s.Pages),
			humanize.Bytes(uint64(s.Bytes)), humanize.Comma(sent))
	}
	w.Flush()
	c.observed(out, web)
}

// byTopic prints a table of what each agent has fetched and kept, and of its topics.
func (c *DemoCmd) byTopic(w io.Writer, results []node.Result) {
	var names []string
	for i := range results {
		_, name := c.agentDir(i + 1)
		names = append(names, name)
	}
	topics := (&membership.Config{}).Topics(names)
	fmt.Fprintln(w, "AGENT\tFETCHED\tSENT AWAY\tTAKEN IN\tKEPT\t  TOPICS")
	for i, r := range results {
		fetched, m := r.Summary.Pages+r.Summary.Files, r.Summary.Moved
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t  %s\n", names[i], humanize.Comma(fetched), humanize.Comma(m.Exported),
			humanize.Comma(m.Imported), humanize.Comma(fetched-m.Exported+m.Imported),
			strings.ToLower(strings.Join(topics[names[i]], ", ")))
	}
}

// An agentGroup is agents that are shown as one crawl.
type agentGroup []*node.Agent

// close closes all agents at once: each of them takes its leave of the others.
func (c agentGroup) close() error {
	errs := make([]error, len(c))
	var wg sync.WaitGroup
	for i, a := range c {
		wg.Go(func() { errs[i] = a.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c agentGroup) Watch(hosts int) {
	for _, a := range c {
		a.Watch(hosts / len(c))
	}
}

func (c agentGroup) Waiting() *node.Waiting {
	for _, a := range c {
		if w := a.Waiting(); w != nil {
			return w
		}
	}
	return nil
}

// Status implements shown. It is nil as long as that of an agent is.
func (c agentGroup) Status() *crawl.Status {
	var all []*crawl.Status
	for _, a := range c {
		s := a.Status()
		if s == nil {
			return nil
		}
		all = append(all, s)
	}
	return sum(all)
}

// sum adds the numbers of several agents. The sum stops when all of them stop, and waits when all of them wait.
func sum(all []*crawl.Status) *crawl.Status {
	t := *all[0]
	t.Errors, t.Skipped, t.Retrying = maps.Clone(t.Errors), maps.Clone(t.Skipped), maps.Clone(t.Retrying)
	t.Live.Hosts = slices.Clone(t.Live.Hosts)
	for _, s := range all[1:] {
		t.At.Time, t.Elapsed = later(t.At.Time, s.At.Time), max(t.Elapsed, s.Elapsed)
		t.Pages, t.Fetched, t.Bytes = t.Pages+s.Pages, t.Fetched+s.Fetched, t.Bytes+s.Bytes
		t.Files, t.Queued, t.Unique = t.Files+s.Files, t.Queued+s.Queued, t.Unique+s.Unique
		t.Open, t.Resolving = t.Open+s.Open, t.Resolving+s.Resolving
		t.Frontier.Ready += s.Frontier.Ready
		t.Frontier.Resting += s.Frontier.Resting
		t.Frontier.Paused += s.Frontier.Paused
		t.Denied, t.Duplicates = t.Denied+s.Denied, t.Duplicates+s.Duplicates
		t.Revisits, t.Unchanged = t.Revisits+s.Revisits, t.Unchanged+s.Unchanged
		addTo(&t.Errors, s.Errors)
		addTo(&t.Skipped, s.Skipped)
		addTo(&t.Retrying, s.Retrying)
		t.Live.Hosts = append(t.Live.Hosts, s.Live.Hosts...)
		if t.NextRetry.IsZero() || !s.NextRetry.IsZero() && s.NextRetry.Before(t.NextRetry.Time) {
			t.NextRetry = s.NextRetry
		}
		if s.LastURL != "" && s.Open > 0 {
			t.LastURL, t.Live.NowURL = s.LastURL, s.Live.NowURL
		}
		if s.WaitsFor == "" {
			t.WaitsFor = ""
		}
		if s.Stop == "" {
			t.Stop = ""
		}
	}
	t.Cluster.Exchange = nil
	return &t
}

func addTo(sum *map[string]int64, counts map[string]int64) {
	if *sum == nil {
		*sum = map[string]int64{}
	}
	for k, n := range counts {
		(*sum)[k] += n
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
