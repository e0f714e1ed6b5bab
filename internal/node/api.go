package node

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/console"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// APIAccess is the content of crawldir.APIFile and crawldir.APIReaderFile, as JSON: the address of the API and the
// token that callers must send. With TLS, Cert is the certificate of the API in DER.
type APIAccess struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
	Cert  []byte `json:"cert,omitempty"`
}

// forgetAccess removes the files about the API of a run that was killed.
func (a *Agent) forgetAccess() error {
	for _, name := range []string{crawldir.APIFile, crawldir.APIReaderFile, crawldir.TokenFile} {
		if err := a.fs.Remove(a.dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("api: %w", err)
		}
	}
	return nil
}

// Serve answers the API on ln, which comes from admin.Reserve, until Close. It uses TLS if there is a certificate. If
// cert is nil and ln is not on loopback, it uses the certificate of the cluster's keys. It writes the files of package
// crawldir about the API, which Close removes. Call it before Run. If it returns an error, Close closes ln.
func (a *Agent) Serve(ln net.Listener, cert *tls.Certificate) error {
	reg := prometheus.NewRegistry()
	info, _ := debug.ReadBuildInfo()
	b := BuildOf(info)
	m := &local.Metrics{Version: b.Version, Go: b.Go, Revision: b.Commit, Dir: a.cfg.Dir, Run: run{a}}
	of := &local.CrawlMetrics{Robots: a.parts.Robots, Apps: a.crawler.Applications, Files: &a.shortages, Run: run{a}}
	if a.membership != nil {
		m.Agent = a.membership.Members.Self.Name
		reg.MustRegister(a.membership.Metrics())
	}
	reg.MustRegister(of, m, a.phases, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	access := APIAccess{Token: admin.NewToken()}
	forReaders := APIAccess{Token: admin.NewToken()}
	if ap, err := netip.ParseAddrPort(ln.Addr().String()); cert == nil && err == nil && !ap.Addr().IsLoopback() &&
		a.membership != nil {
		cert = a.membership.Certificate()
	}
	s, err := admin.Listen(admin.Config{
		Listener: ln, Cert: cert, Token: access.Token, ReaderToken: forReaders.Token, Metrics: reg,
		Operator: a.operator, Ready: m.Ready, Clock: a.cfg.Clock, Console: console.Handler(),
		Settings: a.cfg.Settings, Archive: a.archive.Frame(a.operator), MemoryBytes: a.budget.of(shareCalls),
		Panicked: local.Panicked(a.parts.Events),
	})
	if err != nil {
		return input.Errorf("%v", err)
	}
	a.onClose(s.Close)
	for _, f := range []struct {
		name string
		APIAccess
	}{{crawldir.APIReaderFile, forReaders}, {crawldir.APIFile, access}} {
		if f.Addr = s.Addr(); cert != nil {
			f.Cert = cert.Certificate[0]
		}
		b, err := json.Marshal(f.APIAccess)
		if err != nil {
			return fmt.Errorf("api: %w", err)
		}
		if err := disk.WriteSecret(a.fs, a.dir(f.name), append(b, '\n')); err != nil {
			return err
		}
		a.onClose(func() error { return a.fs.Remove(a.dir(f.name)) })
	}
	if err := disk.WriteSecret(a.fs, a.dir(crawldir.TokenFile), []byte(forReaders.Token)); err != nil {
		return err
	}
	a.onClose(func() error { return a.fs.Remove(a.dir(crawldir.TokenFile)) })
	return nil
}

// waits returns what an agent of a cluster waits for before the crawl begins.
func (a *Agent) waits() (w local.Waiting, ok bool) {
	if a.membership == nil || a.Status() != nil {
		return local.Waiting{}, false
	}
	if w := a.membership.Waiting(); w != nil {
		return *w, true
	}
	return local.Waiting{Type: "waiting", For: "an agent that answers", Agents: []string{}}, true
}

// Operator answers operators for the whole cluster.
func (a *Agent) Operator() *operate.Operator { return a.operator }
