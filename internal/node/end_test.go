package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// If no agent of a cluster has fetched anything, each says so, and the agents name all seeds, each the seeds of its
// hosts. If one agent has fetched a page, no agent says that nothing was fetched.
func TestNothingFetchedByTheCluster(t *testing.T) {
	const hosts = 8
	var table strings.Builder
	var seeds []string
	for i := range hosts {
		fmt.Fprintf(&table, "192.0.2.%d h%d.example\n", i+1, i)
		seeds = append(seeds, fmt.Sprintf("http://h%d.example/0", i))
	}
	for _, page := range []bool{false, true} {
		t.Run(fmt.Sprint("one page ", page), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, loop := &smallWeb{Web: textweb.Parse(t, "http://h0.example/0\n")}, newLoop()
				results := make([]node.Result, 2)
				var agents sync.WaitGroup
				for i := range results {
					cfg := web.config(t, testdisk.NewMem())
					must.Do(t, os.WriteFile(cfg.DNS.HostsFile, []byte(table.String()), 0o644))
					cfg.Seeds, cfg.Scope.Scope, cfg.Crawl.Retries = seeds, scope.Page, -1
					dial := cfg.Fetch.Dial
					cfg.Fetch.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if page && strings.HasPrefix(addr, "192.0.2.1:") {
							return dial(ctx, network, addr)
						}
						return nil, &net.OpError{Op: "dial", Net: "tcp",
							Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
					}
					cfg.Cluster = &membership.Config{Name: fmt.Sprint("a", i+1), Capacity: 1, Agents: 2, Network: loop,
						Listen: fmt.Sprintf("127.0.0.1:747%d", i), Join: []string{"127.0.0.1:7470"}}
					agents.Go(func() {
						time.Sleep(time.Duration(i) * time.Second)
						var err error
						if results[i], err = life(cfg); err != nil || results[i].Stop != crawl.Finished {
							t.Errorf("a%d: stop %q, %v", i+1, results[i].Stop, err)
						}
					})
				}
				agents.Wait()
				var failed []string
				for i, r := range results {
					if r.Nothing == page || len(r.Failed) == 0 {
						t.Errorf("a%d: nothing was fetched: %v; failed seeds: %v", i+1, r.Nothing, r.Failed)
					}
					if e := r.Summary.Exchange; e == nil || e.Agents != len(results) {
						t.Errorf("a%d: the summary says of the cluster: %+v", i+1, e)
					}
					for _, f := range r.Failed {
						failed = append(failed, f.URL.String())
					}
				}
				want := seeds
				if page {
					want = seeds[1:]
				}
				if slices.Sort(failed); !slices.Equal(failed, want) {
					t.Errorf("failed seeds %q, want %q", failed, want)
				}
			})
		})
	}
}
