package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
)

// CtlCmd implements "ctl": commands to a running crawl.
type CtlCmd struct {
	Dir     string        `short:"o" help:"${ctl_dir}" default:"./crawl" placeholder:"DIR"`
	Status  CtlStatusCmd  `cmd:"" help:"Print the state of the crawl as JSON."`
	Explain CtlExplainCmd `cmd:"" help:"Explain why a host is not being crawled now."`
	Block   CtlBlockCmd   `cmd:"" help:"Stop crawling a host, also after a restart; its links wait."`
	Unblock CtlUnblockCmd `cmd:"" help:"Crawl a blocked host again."`
	Drop    CtlDropCmd    `cmd:"" help:"Discard the waiting links of a host."`
	Health  CtlHealthCmd  `cmd:"" help:"Exit with code 0 if the crawl runs or has ended; for health checks."`
	Leave   CtlLeaveCmd   `cmd:"" help:"Hand all hosts of this agent to the other agents, then end it."`
}

// Help explains what the commands require.
func (CtlCmd) Help() string {
	return `The crawl must run on this machine with --api ADDR:

  orbweaver crawl --api 127.0.0.1:7480 …
  orbweaver ctl explain www.example.org
  orbweaver ctl block www.example.org

The command reads the address and the token from state/api.json in the crawl
directory. If a command takes longer than 10 s, its result appears in
logs/events.jsonl.`
}

// CtlStatusCmd implements "ctl status".
type CtlStatusCmd struct{}

// Run prints the status.
func (CtlStatusCmd) Run(c *commands, out io.Writer) error { return c.Ctl.ask(out, "GET", "/status") }

// HostArg is the host argument of a command.
type HostArg struct {
	Host string `arg:"" help:"Name this host, such as www.example.org; a URL means its host."`
}

// ask sends a command about the host and prints the answer.
func (h HostArg) ask(c *commands, out io.Writer, method, path string) error {
	host, err := node.ParseHost(h.Host)
	if err != nil {
		return err
	}
	return c.Ctl.ask(out, method, path+"?host="+url.QueryEscape(host))
}

// CtlExplainCmd implements "ctl explain".
type CtlExplainCmd struct {
	HostArg `embed:""`
}

// Run prints the explanation.
func (e CtlExplainCmd) Run(c *commands, out io.Writer) error {
	return e.ask(c, out, "GET", "/explain")
}

// CtlBlockCmd implements "ctl block".
type CtlBlockCmd struct {
	HostArg `embed:""`
}

// Run blocks the host.
func (b CtlBlockCmd) Run(c *commands, out io.Writer) error { return b.ask(c, out, "POST", "/block") }

// CtlUnblockCmd implements "ctl unblock".
type CtlUnblockCmd struct {
	HostArg `embed:""`
}

// Run unblocks the host.
func (u CtlUnblockCmd) Run(c *commands, out io.Writer) error {
	return u.ask(c, out, "POST", "/unblock")
}

// CtlDropCmd implements "ctl drop".
type CtlDropCmd struct {
	HostArg `embed:""`
}

// Run discards the host's links.
func (d CtlDropCmd) Run(c *commands, out io.Writer) error { return d.ask(c, out, "POST", "/drop") }

// CtlLeaveCmd implements "ctl leave".
type CtlLeaveCmd struct{}

// Run asks the agent to leave its cluster.
func (CtlLeaveCmd) Run(c *commands, out io.Writer) error { return c.Ctl.ask(out, "POST", "/leave") }

// sendRetrying sends req. If the crawl closes the connection without an answer, it sends
// req again for up to retryFor. A crawl under a flood of connections closes those whose
// token it has not read yet (see package inbound). Every command may be repeated.
func sendRetrying(req *http.Request) (*http.Response, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	for end := time.Now().Add(retryFor); ; time.Sleep(retryPause) {
		res, err := client.Do(req)
		over := err == nil || errors.Is(err, syscall.ECONNREFUSED) || os.IsTimeout(err)
		if over || time.Now().After(end) {
			return res, err
		}
	}
}

const (
	retryFor   = 20 * time.Second
	retryPause = 20 * time.Millisecond
)

// silent returns the error for a directory in which no crawl with --api is running.
func (c *CtlCmd) silent() error {
	there, err := node.HoldsCrawl(nil, c.Dir)
	if err != nil {
		return err
	}
	pid, err := node.CrawledBy(c.Dir)
	switch {
	case err == nil && pid != 0:
		return bad("process %d crawls in %s without --api; stop it, then continue the crawl with --api:\n"+
			"  kill %[1]d\n  orbweaver crawl --resume --api 127.0.0.1:7480%[3]s", pid, c.Dir, dirFlag(c.Dir))
	case there:
		return bad("no process is crawling in %s; to continue the crawl:\n"+
			"  orbweaver crawl --resume --api 127.0.0.1:7480%s", c.Dir, dirFlag(c.Dir))
	}
	return bad("there is no crawl in %s; name the directory of a running crawl with --dir", c.Dir)
}

// ask sends a request to the running crawl and prints the answer.
func (c *CtlCmd) ask(out io.Writer, method, path string) error {
	file := filepath.Join(c.Dir, node.APIFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return c.silent()
	}
	if err != nil {
		return bad("--dir %s: %s: %v; run ctl as the user who runs the crawl", c.Dir, node.APIFile, cause(err))
	}
	var access node.APIAccess
	if err := json.Unmarshal(b, &access); err != nil || access.Addr == "" {
		return bad("%s is damaged; restart the crawl with --resume --api ADDR", file)
	}
	req, err := http.NewRequest(method, "http://"+access.Addr+path, nil)
	if err != nil {
		return bad("%s is damaged; restart the crawl with --resume --api ADDR", file)
	}
	req.Header.Set("Authorization", "Bearer "+access.Token)
	res, err := sendRetrying(req)
	if err != nil {
		if pid, herr := node.CrawledBy(c.Dir); herr == nil && pid == 0 {
			return c.silent() // it was killed, and left its api.json
		}
		why := err
		if no := syscall.Errno(0); errors.As(err, &no) {
			why = no
		}
		return fmt.Errorf("the crawl in %s does not answer at %s: %w; try again, or look at its process",
			c.Dir, access.Addr, why)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the crawl answers: %s", report.OneLine(strings.TrimSpace(string(answer))))
	}
	_, err = out.Write(answer)
	return err
}
