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

// CtlCmd talks to a running crawl.
type CtlCmd struct {
	Dir     string        `help:"Crawl directory of the crawl to ask; it must run with --api." default:"./crawl" placeholder:"DIR"`
	Status  CtlStatusCmd  `cmd:"" help:"How the crawl stands, as JSON."`
	Explain CtlExplainCmd `cmd:"" help:"Why a host is not being crawled now."`
	Block   CtlBlockCmd   `cmd:"" help:"Let a host alone, also after a restart; its links wait."`
	Unblock CtlUnblockCmd `cmd:"" help:"Take a block back."`
	Drop    CtlDropCmd    `cmd:"" help:"Give up the links of a host that wait."`
	Leave   CtlLeaveCmd   `cmd:"" help:"Give all hosts of this agent to the others, and end it."`
}

// Help says what it takes.
func (CtlCmd) Help() string {
	return `The crawl must have been begun with --api ADDR on this machine:

  orbweaver crawl --api 127.0.0.1:7480 …
  orbweaver ctl explain www.example.org
  orbweaver ctl block www.example.org

The address and the token stand in state/api.json of the crawl directory.`
}

// CtlStatusCmd is "ctl status".
type CtlStatusCmd struct{}

// Run prints the status.
func (CtlStatusCmd) Run(c *commands, out io.Writer) error { return c.Ctl.ask(out, "GET", "/status") }

// HostArg is the host that a command is about.
type HostArg struct {
	Host string `arg:"" help:"Host name, without scheme and port."`
}

// ask sends a command about the host, and prints what came of it.
func (h HostArg) ask(c *commands, out io.Writer, method, path string) error {
	host, err := node.ParseHost(h.Host)
	if err != nil {
		return err
	}
	return c.Ctl.ask(out, method, path+"?host="+url.QueryEscape(host))
}

// CtlExplainCmd is "ctl explain".
type CtlExplainCmd struct {
	HostArg `embed:""`
}

// Run prints the explanation.
func (e CtlExplainCmd) Run(c *commands, out io.Writer) error {
	return e.ask(c, out, "GET", "/explain")
}

// CtlBlockCmd is "ctl block".
type CtlBlockCmd struct {
	HostArg `embed:""`
}

// Run blocks the host.
func (b CtlBlockCmd) Run(c *commands, out io.Writer) error { return b.ask(c, out, "POST", "/block") }

// CtlUnblockCmd is "ctl unblock".
type CtlUnblockCmd struct {
	HostArg `embed:""`
}

// Run unblocks the host.
func (u CtlUnblockCmd) Run(c *commands, out io.Writer) error {
	return u.ask(c, out, "POST", "/unblock")
}

// CtlDropCmd is "ctl drop".
type CtlDropCmd struct {
	HostArg `embed:""`
}

// Run drops the host's links.
func (d CtlDropCmd) Run(c *commands, out io.Writer) error { return d.ask(c, out, "POST", "/drop") }

// CtlLeaveCmd is "ctl leave".
type CtlLeaveCmd struct{}

// Run has the agent leave its cluster.
func (CtlLeaveCmd) Run(c *commands, out io.Writer) error { return c.Ctl.ask(out, "POST", "/leave") }

// insist sends req, and sends it again for up to insistence if the crawl closes the
// connection without an answer. A crawl under a flood of connections does that to
// callers whose token it has not read yet (see package inbound). All orders may be
// repeated.
func insist(req *http.Request) (*http.Response, error) {
	client := &http.Client{Timeout: 30 * time.Second}
	for end := time.Now().Add(insistence); ; time.Sleep(insistencePause) {
		res, err := client.Do(req)
		over := err == nil || errors.Is(err, syscall.ECONNREFUSED) || os.IsTimeout(err)
		if over || time.Now().After(end) {
			return res, err
		}
	}
}

const (
	insistence      = 20 * time.Second
	insistencePause = 20 * time.Millisecond
)

// ask puts a question or an order to the running crawl and prints the answer.
func (c *CtlCmd) ask(out io.Writer, method, path string) error {
	b, err := os.ReadFile(filepath.Join(c.Dir, node.APIFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &node.ConfigError{Text: fmt.Sprintf(
			"no crawl with --api is running in %s; name its directory with --dir", c.Dir)}
	}
	if err != nil {
		return err
	}
	var access node.APIAccess
	if err := json.Unmarshal(b, &access); err != nil {
		return fmt.Errorf("%s: %w", node.APIFile, err)
	}
	req, err := http.NewRequest(method, "http://"+access.Addr+path, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", node.APIFile, err)
	}
	req.Header.Set("Authorization", "Bearer "+access.Token)
	res, err := insist(req)
	if err != nil {
		return fmt.Errorf("the crawl in %s does not answer (was it killed?): %w", c.Dir, err)
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
