package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testcost"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkCost measures what a fetch costs this process: user time, system time and allocations.
// The server is another process. Each case runs beside the least code that does the same ("bare":
// net, net/http's reader, a fixed buffer), which has no limits and no guard, and keeps no header.
//
//	go test -run - -bench Cost -benchtime 30000x ./internal/web/fetch
//
// To count system calls, start the server with ORBWEAVER_BENCH_SERVE=1 and pass its first line of
// output to the benchmark in ORBWEAVER_BENCH_SERVER.
func BenchmarkCost(b *testing.B) {
	s := startBenchServer(b)
	for _, c := range []struct {
		name, path  string
		hosts       int
		tls, resume bool
		cfg         Config
	}{
		{name: "kept-identity", path: "/i", hosts: 256, cfg: Config{IdleKeep: time.Minute}},
		{name: "kept-gzip", path: "/z", hosts: 256, cfg: Config{IdleKeep: time.Minute}},
		{name: "kept-chunked", path: "/c", hosts: 256, cfg: Config{IdleKeep: time.Minute}},
		{name: "kept-tls", path: "/i", hosts: 256, tls: true, resume: true, cfg: Config{IdleKeep: time.Minute}},
		{name: "new-identity", path: "/i", hosts: 20_000, cfg: Config{IdleKeep: -1}},
		{name: "new-gzip", path: "/z", hosts: 20_000, cfg: Config{IdleKeep: -1}},
		{name: "tls-resumed", path: "/z", hosts: 256, tls: true, resume: true, cfg: Config{IdleKeep: -1}},
		{name: "tls-full", path: "/z", hosts: 20_000, tls: true, cfg: Config{IdleKeep: -1}},
	} {
		b.Run(c.name+"/ours", func(b *testing.B) {
			cfg := c.cfg
			cfg.AllowPrivate, cfg.CA, cfg.MaxIdle = true, s.pool(), 1024
			if c.tls && !c.resume {
				cfg.TLSSessions = -1
			}
			f := mustNew(b, cfg)
			reqs := make([]Request, c.hosts)
			for i := range reqs {
				u, err := weburl.Parse(s.url(i, c.tls, c.path))
				must.Do(b, err)
				reqs[i] = Request{URL: u, Addr: hostAddr(i)}
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			crowd(b, c.hosts, func(int) func(int) error {
				return func(n int) error { return fetchOnce(ctx, f, reqs[n]) }
			})
		})
		b.Run(c.name+"/bare", func(b *testing.B) {
			cfg := &tls.Config{RootCAs: s.pool()}
			if c.resume {
				cfg.ClientSessionCache = tls.NewLRUClientSessionCache(c.hosts)
			}
			crowd(b, c.hosts, func(g int) func(int) error {
				w := &bareWorker{s: s, path: c.path, tls: c.tls, cfg: cfg, kept: c.cfg.IdleKeep > 0}
				w.body, w.plain, w.br = make([]byte, 0, 64<<10), make([]byte, 1<<20), bufio.NewReaderSize(nil, 32<<10)
				return w.fetch
			})
		})
	}
}

func fetchOnce(ctx context.Context, f *Fetcher, req Request) error {
	r, err := f.Fetch(ctx, req)
	if err != nil {
		return err
	}
	defer r.Release()
	if r.Failure != nil || r.Truncated != "" {
		return fmt.Errorf("%s: %s %v", req.URL, outcome(r), r.Failure)
	}
	body, _, err := r.Decode(1 << 20)
	if err == nil && len(body) != benchPage {
		err = fmt.Errorf("got a body of %d bytes", len(body))
	}
	return err
}

const (
	benchPage    = 22_300
	benchWorkers = 64
)

// crowd runs b.N fetches with benchWorkers workers and reports this process's time. Worker g
// fetches from the hosts g, g+benchWorkers and so on.
func crowd(b *testing.B, hosts int, worker func(g int) func(host int) error) {
	fs := make([]func(int) error, benchWorkers)
	for g := range fs {
		fs[g] = worker(g)
		for n := g; n < min(hosts, 256); n += benchWorkers { // fill connections and pools first
			must.Do(b, fs[g](n))
		}
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	before := testcost.CPU()
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for g, f := range fs {
		wg.Go(func() {
			for n := g; left.Add(-1) >= 0; n += benchWorkers {
				if n >= hosts {
					n = g
				}
				if err := f(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((testcost.CPU()-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

// bareWorker fetches as our yardstick, the program bare of the lab, does.
type bareWorker struct {
	s           *benchServer
	path        string
	tls, kept   bool
	cfg         *tls.Config
	conn        net.Conn
	br          *bufio.Reader
	body, plain []byte
	zr          gzip.Reader
}

func (w *bareWorker) fetch(n int) (err error) {
	host := "h" + strconv.Itoa(n) + ".example"
	if w.conn == nil {
		if w.conn, err = net.Dial("tcp",
			netip.AddrPortFrom(hostAddr(n), uint16(w.s.port(w.tls))).String()); err != nil {
			return err
		}
		if w.tls {
			cfg := w.cfg.Clone()
			cfg.ServerName = host
			w.conn = tls.Client(w.conn, cfg)
		}
		w.br.Reset(w.conn)
	}
	fmt.Fprintf(w.conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bare\r\nAccept-Encoding: gzip\r\n\r\n", w.path,
		host)
	res, err := http.ReadResponse(w.br, nil)
	if err != nil {
		return err
	}
	buf := bytes.NewBuffer(w.body[:0])
	if _, err := io.Copy(buf, res.Body); err != nil {
		return err
	}
	res.Body.Close()
	w.body = buf.Bytes()
	size := len(w.body)
	if res.Header.Get("Content-Encoding") == "gzip" {
		if err := w.zr.Reset(bytes.NewReader(w.body)); err != nil {
			return err
		}
		if size, err = io.ReadFull(&w.zr, w.plain); err != nil && err != io.ErrUnexpectedEOF {
			return err
		}
	}
	if !w.kept {
		w.conn.Close()
		w.conn = nil
	}
	if size != benchPage {
		return fmt.Errorf("got a body of %d bytes", size)
	}
	return nil
}

// hostAddr returns the loopback address of host i.
func hostAddr(i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)})
}

// A benchServer is another process that answers from memory.
type benchServer struct {
	Plain, TLS int    // ports
	CA         []byte // DER
}

func (s *benchServer) port(tls bool) int {
	if tls {
		return s.TLS
	}
	return s.Plain
}

func (s *benchServer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	if c, err := x509.ParseCertificate(s.CA); err == nil {
		p.AddCert(c)
	}
	return p
}

func (s *benchServer) url(i int, tls bool, path string) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	return fmt.Sprintf("%s://h%d.example:%d%s", scheme, i, s.port(tls), path)
}

// startBenchServer starts the server in another process.
func startBenchServer(b *testing.B) *benchServer {
	s := new(benchServer)
	must.Do(b, json.Unmarshal([]byte(testcost.StartServer(b)), s))
	return s
}

// TestBenchServer is the server of BenchmarkCost, in its own process.
func TestBenchServer(t *testing.T) {
	testcost.IsServer(t)
	page := benchText()
	var z bytes.Buffer
	w, _ := gzip.NewWriterLevel(&z, 6)
	w.Write(page)
	w.Close()
	head := "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/html; " +
		"charset=utf-8\r\n"
	replies := map[byte][]byte{
		'i': fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", head, len(page), page),
		'z': fmt.Appendf(nil, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", head, z.Len(), z.Bytes()),
	}
	chunked := []byte(head + "Transfer-Encoding: chunked\r\n\r\n")
	for p := page; len(p) > 0; p = p[min(len(p), 4096):] {
		k := min(len(p), 4096)
		chunked = fmt.Appendf(chunked, "%x\r\n%s\r\n", k, p[:k])
	}
	replies['c'] = append(chunked, "0\r\n\r\n"...)
	handle := func(c net.Conn) {
		defer c.Close()
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil || n < 6 {
				return
			}
			if _, err := c.Write(replies[b[5]]); err != nil {
				return
			}
		}
	}
	ca := newAuthority(t)
	cfg := ca.config("*.example")
	var s benchServer
	s.CA = ca.cert.Raw
	var open sync.WaitGroup
	for i, port := range []*int{&s.Plain, &s.TLS} {
		l := must.Get(net.Listen("tcp4", "0.0.0.0:0"))(t)
		defer l.Close()
		*port = l.Addr().(*net.TCPAddr).Port
		open.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if i == 1 {
					c = tls.Server(c, cfg)
				}
				go handle(c)
			}
		})
	}
	json.NewEncoder(os.Stdout).Encode(s)
	open.Wait() // for ever: the process ends with the benchmark
}

// benchText returns a page of the web's mean size. gzip compresses it to a third.
func benchText() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 1200)
	for i := range words {
		w := make([]byte, 3+r.IntN(7))
		for j := range w {
			w[j] = "etaoinshrdlucmfw"[r.IntN(16)]
		}
		words[i] = string(w)
	}
	var b strings.Builder
	b.WriteString("<!doctype html><html><head><title>A page</title></head><body>\n")
	for b.Len() < benchPage-400 {
		fmt.Fprintf(&b, "<p class=\"text\">")
		for range 30 {
			b.WriteString(words[int(float64(len(words))*r.Float64()*r.Float64())])
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "<a href=\"/%s/%d.html\">%s</a></p>\n", words[r.IntN(100)], r.IntN(1000), words[r.IntN(1200)])
	}
	s := b.String()
	return []byte(s + strings.Repeat(" ", benchPage-len(s)))
}
