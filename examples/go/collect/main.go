// Command collect is an application of a running crawl: it gives URLs to the crawl and collects their pages.
//
//	orbweaver ctl app shop --strategy list --pages
//	go run ./examples/go/collect --app shop --out shop urls.txt
//
// The file has a URL on each line, with a priority from 0 to 15 behind it if it is not 0. The program writes the bodies
// to OUT/bodies and a line for each page to OUT/pages.jsonl, and runs until Ctrl-C. It may be killed at any time.
// Started again, it goes on: OUT/fed says how many URLs the crawl has, and pages that were not acknowledged come
// again.
//
// It needs only Go's standard library, and may be copied.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A crawl is a running crawl, whose API is described by state/api.json in its directory.
type crawl struct{ dir string }

// A feedURL is a URL of the call Feed.
type feedURL struct {
	URL      string `json:"url"`
	Priority int    `json:"priority"`
}

// A page is a page of the call Pages. Body is its content, in base64 in JSON.
type page struct {
	URL       string    `json:"url"`
	Status    int       `json:"status,omitempty"`
	Error     string    `json:"error,omitempty"`
	Via       string    `json:"via,omitempty"`
	Time      time.Time `json:"time,omitzero"`
	MIME      string    `json:"mime,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Notes     []string  `json:"notes,omitempty"`
	Robots    string    `json:"robots,omitempty"`
	Body      []byte    `json:"body,omitempty"`
	Truncated bool      `json:"truncated,omitempty"`
	BodyError string    `json:"body_error,omitempty"`
}

// refused is the answer to a call that is wrong.
type refused struct{ text string }

func (r refused) Error() string { return "the crawl answers: " + r.text }

// call makes a call. It tries again while the crawl does not run or does not answer, until ctx is done.
func (c crawl) call(ctx context.Context, name string, request, response any) error {
	for {
		err := c.once(ctx, name, request, response)
		if _, ok := errors.AsType[refused](err); ok || err == nil {
			return err
		}
		log.Printf("%s: %v; trying again", name, err)
		select { // a restarted crawl has another address and token
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c crawl) once(ctx context.Context, name string, request, response any) error {
	b, err := os.ReadFile(filepath.Join(c.dir, "state", "api.json"))
	if err != nil {
		return err
	}
	var access struct {
		Addr, Token string
		Cert        []byte
	}
	if err := json.Unmarshal(b, &access); err != nil {
		return err
	}
	client, scheme := http.Client{Timeout: 90 * time.Second}, "http"
	if access.Cert != nil { // the API has exactly this certificate
		scheme = "https"
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, access.Cert) {
					return errors.New("the API has another certificate than state/api.json says")
				}
				return nil
			}}}
		defer client.CloseIdleConnections()
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", scheme+"://"+access.Addr+"/orbweaver.operator.v1.Operator/"+name,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+access.Token)
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode == http.StatusOK {
		return json.Unmarshal(text, response)
	}
	problem := struct{ Code, Message string }{Message: string(text)}
	_ = json.Unmarshal(text, &problem) // other texts are shown as they are
	switch problem.Code {
	case "invalid_argument", "not_found", "failed_precondition":
		return refused{problem.Message}
	}
	return errors.New(problem.Message)
}

// A store is the directory with the collected pages. What its methods have written survives a kill.
type store struct {
	dir   string
	pages *os.File
	urls  map[string]bool
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, "bodies"), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "pages.jsonl"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, pages: f, urls: map[string]bool{}}
	end := int64(0)
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF { // a kill may have cut the last line
			break
		}
		var p struct{ URL string }
		if err == nil {
			err = json.Unmarshal(line, &p)
		}
		if err != nil {
			return nil, err
		}
		s.urls[p.URL] = true
		end += int64(len(line))
	}
	if err := f.Truncate(end); err != nil {
		return nil, err
	}
	_, err = f.Seek(end, io.SeekStart)
	return s, err
}

// add writes the pages that are not there yet, and makes them durable. It returns how many came again.
func (s *store) add(pages []page) (again int, err error) {
	for _, p := range pages {
		if s.urls[p.URL] { // its acknowledgement was lost
			again++
			continue
		}
		s.urls[p.URL] = true
		line := struct {
			page
			Body string `json:"body,omitempty"` // name of the file
		}{page: p}
		if len(p.Body) > 0 {
			sum := sha256.Sum256([]byte(p.URL))
			line.Body = hex.EncodeToString(sum[:])
			if err := s.write(filepath.Join("bodies", line.Body), p.Body); err != nil {
				return again, err
			}
		}
		b, err := json.Marshal(line)
		if err != nil {
			return again, err
		}
		if _, err := s.pages.Write(append(b, '\n')); err != nil {
			return again, err
		}
	}
	return again, s.pages.Sync()
}

// fed returns how many URLs of the file the crawl has.
func (s *store) fed() (int, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "fed"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b))
}

func (s *store) write(name string, data []byte) error {
	path := filepath.Join(s.dir, name)
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// readURLs returns the URLs of a file.
func readURLs(name string) (urls []feedURL, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		u := feedURL{URL: fields[0]}
		if len(fields) > 1 {
			if u.Priority, err = strconv.Atoi(fields[1]); err != nil {
				return nil, fmt.Errorf("%s: %q: the priority is a number from 0 to 15", name, line)
			}
		}
		urls = append(urls, u)
	}
	return urls, nil
}

// run gives the URLs to the application and collects its pages, until ctx is done.
func run(ctx context.Context, c crawl, app, out, file string, batch int) error {
	urls, err := readURLs(file)
	if err != nil {
		return err
	}
	s, err := openStore(out)
	if err != nil {
		return err
	}
	defer s.pages.Close()
	fed, err := s.fed()
	if err != nil {
		return err
	}
	for {
		wait := 30
		if fed < len(urls) {
			next := urls[fed:min(fed+batch, len(urls))]
			var answer struct {
				URLs []struct{ URL, Result, Text string }
			}
			if err := c.call(ctx, "Feed", map[string]any{"application": app, "urls": next}, &answer); err != nil {
				return err
			}
			for _, u := range answer.URLs {
				if u.Result == "refused" {
					log.Printf("%s: %s", u.URL, u.Text)
				}
			}
			fed += len(next)
			if err := s.write("fed", []byte(strconv.Itoa(fed))); err != nil {
				return err
			}
			wait = 0
		}
		var answer struct {
			Pages []page
			Token string
		}
		if err := c.call(ctx, "Pages", map[string]any{"application": app, "limit": batch, "wait": wait, "body": true},
			&answer); err != nil {
			return err
		}
		if len(answer.Pages) == 0 {
			continue
		}
		again, err := s.add(answer.Pages)
		if err != nil {
			return err
		}
		if err := c.call(ctx, "Acknowledge", map[string]any{"application": app, "token": answer.Token},
			&struct{}{}); err != nil {
			return err
		}
		fmt.Printf("%d pages, %d came again\n", len(s.urls), again)
	}
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "./crawl", "directory of the running crawl")
	app := flag.String("app", "", "name of the application")
	out := flag.String("out", "", "directory for the pages")
	batch := flag.Int("batch", 200, "URLs or pages of a call, at most 1000")
	flag.Parse()
	if *app == "" || *out == "" || flag.NArg() != 1 {
		log.Fatal("usage: collect --app NAME --out DIR [--dir CRAWL] FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, crawl{*dir}, *app, *out, flag.Arg(0), *batch); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
