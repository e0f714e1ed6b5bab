// Package bare answers: how fast is a minimal loop that fetches, decodes, scans and archives?
//
//	list of URLs -> GET over a kept connection -> decode -> scan for href
//	             -> set in RAM -> one WARC response record
//
// It is the yardstick of the throughput experiment. It has no politeness, no robots.txt, no
// frontier, no DNS and no durability. The experiment divides a crawler's pages per second by
// the yardstick's, both against the same server in the same run: the quotient shows what
// these duties cost. The package shares no code with the crawler.
//
// Run blocks until the measurement is over. Each connection belongs to one goroutine.
package bare

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"
)

// run is one measurement.
type run struct {
	urls  []*url.URL
	addr  string // of the server, for all hosts
	conns int
	gzip  bool // ask for compressed bodies, and archive them without decoding
	stop  time.Time
	out   sink
	seed  maphash.Seed
	// seen holds the links found so far, sharded by fingerprint.
	seen [256]struct {
		sync.Mutex // guards m
		m          map[uint64]struct{}
	}
	pages, octets atomic.Int64
}

// Run measures according to the flags in args, and writes one JSON object to stdout: pages,
// pages_per_s, mb_per_s, gzip, connections.
func Run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("bare", flag.ContinueOnError)
	list := flags.String("urls", "", "file of URLs, one a line")
	addr := flags.String("addr", "", "connect to this host:port for every URL")
	conns := flags.Int("c", 64, "connections")
	d := flags.Duration("d", 10*time.Second, "how long to measure")
	askGzip := flags.Bool("gzip", false, "ask for compressed bodies and archive them as they come")
	output := flags.String("o", os.DevNull, "WARC file to write")
	flags.SetOutput(stdout)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	if *conns < 1 || *d <= 0 {
		return fmt.Errorf("bare: -c %d and -d %v: give values above 0", *conns, *d)
	}
	r := &run{addr: *addr, conns: *conns, gzip: *askGzip, seed: maphash.MakeSeed()}
	var err error
	if r.urls, err = readURLs(*list); err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	for i := range r.seen {
		r.seen[i].m = map[uint64]struct{}{}
	}
	f, err := os.Create(*output)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	r.out.w = bufio.NewWriterSize(f, 1<<20)
	r.stop = time.Now().Add(*d)
	var workers errgroup.Group
	for n := range r.conns {
		workers.Go(func() error { return r.work(n) })
	}
	if err := errors.Join(workers.Wait(), r.out.w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	s := d.Seconds()
	return json.NewEncoder(stdout).Encode(map[string]any{
		"pages": r.pages.Load(), "pages_per_s": float64(r.pages.Load()) / s,
		"mb_per_s": float64(r.octets.Load()) / 1e6 / s, "gzip": r.gzip, "connections": r.conns,
	})
}

func readURLs(name string) ([]*url.URL, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var us []*url.URL
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		u, err := url.Parse(sc.Text())
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("%s: bad URL %q", name, sc.Text())
		}
		us = append(us, u)
	}
	if len(us) == 0 && sc.Err() == nil {
		return nil, fmt.Errorf("%s: the file has no URLs", name)
	}
	return us, sc.Err()
}

// work fetches every conns-th URL, starting with the one of index first, over one
// connection. At the end of the list it starts again.
func (r *run) work(first int) error {
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	br := bufio.NewReaderSize(c, 32<<10)
	body, plain := make([]byte, 0, 64<<10), make([]byte, 1<<20)
	var zr gzip.Reader
	var out bytes.Buffer
	zw, err := gzip.NewWriterLevel(&out, 1)
	if err != nil {
		return err
	}
	link := make([]byte, 0, 256)
	accept := ""
	if r.gzip {
		accept = "Accept-Encoding: gzip\r\n"
	}
	for n := first; time.Now().Before(r.stop); n += r.conns {
		u := r.urls[n%len(r.urls)]
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bare\r\n%s\r\n", u.RequestURI(), u.Host, accept)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", u, err)
		}
		buf := bytes.NewBuffer(body[:0])
		if _, err := io.Copy(buf, res.Body); err != nil {
			return fmt.Errorf("%s: %w", u, err)
		}
		res.Body.Close()
		body = buf.Bytes()
		r.octets.Add(int64(len(body)))
		html, compressed := body, res.Header.Get("Content-Encoding") == "gzip"
		if compressed {
			if err := zr.Reset(bytes.NewReader(body)); err != nil {
				return fmt.Errorf("%s: %w", u, err)
			}
			k, err := io.ReadFull(&zr, plain)
			if err != nil && err != io.ErrUnexpectedEOF {
				return fmt.Errorf("%s: %w", u, err)
			}
			html = plain[:k]
		}
		hrefs(html, func(h []byte) {
			link = append(append(link[:0], u.Host...), h...)
			k := maphash.Bytes(r.seed, link)
			s := &r.seen[k&255]
			s.Lock()
			s.m[k] = struct{}{}
			s.Unlock()
		})
		head := fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\n"+
			"WARC-Payload-Digest: sha1:%x\r\nContent-Length: %d\r\n\r\n", u, sha1.Sum(body), len(body))
		out.Reset()
		if compressed && len(head)+len(body)+4 < 1<<16 {
			stored(&out, head, body)
		} else {
			zw.Reset(&out)
			zw.Write(head) // writes to memory and cannot fail
			zw.Write(body)
			io.WriteString(zw, "\r\n\r\n")
			zw.Close()
		}
		r.out.write(out.Bytes())
		r.pages.Add(1)
	}
	return nil
}

// stored appends one gzip member that holds head and body uncompressed.
func stored(out *bytes.Buffer, head, body []byte) {
	n := len(head) + len(body) + 4
	out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1})
	out.Write(binary.LittleEndian.AppendUint16(nil, uint16(n)))
	out.Write(binary.LittleEndian.AppendUint16(nil, ^uint16(n)))
	from := out.Len()
	out.Write(head)
	out.Write(body)
	out.WriteString("\r\n\r\n")
	sum := crc32.ChecksumIEEE(out.Bytes()[from:])
	out.Write(binary.LittleEndian.AppendUint32(nil, sum))
	out.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// hrefs calls emit with the value of every double-quoted href of an <a> tag.
func hrefs(b []byte, emit func([]byte)) {
	for {
		i := bytes.IndexByte(b, '<')
		if i < 0 || i+2 >= len(b) {
			return
		}
		if b = b[i+1:]; b[0]|0x20 != 'a' || b[1] != ' ' {
			continue
		}
		e := bytes.IndexByte(b, '>')
		if e < 0 {
			return
		}
		if j := bytes.Index(b[:e], []byte(`href="`)); j >= 0 {
			v := b[j+6 : e]
			if k := bytes.IndexByte(v, '"'); k >= 0 {
				emit(v[:k])
			}
		}
		b = b[e:]
	}
}

// A sink is the WARC file. It keeps its first error for Flush.
type sink struct {
	mu sync.Mutex // guards w
	w  *bufio.Writer
}

func (s *sink) write(p []byte) {
	s.mu.Lock()
	s.w.Write(p)
	s.mu.Unlock()
}
