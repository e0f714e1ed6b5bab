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
	"time"

	"github.com/orbweaver/orbweaver/agent"
)

// CtlCmd talks to a running crawl.
type CtlCmd struct {
	Dir     string        `help:"Crawl directory of the crawl to ask; it must run with --api." default:"./crawl" placeholder:"DIR"`
	Status  CtlStatusCmd  `cmd:"" help:"How the crawl stands, as JSON."`
	Explain CtlExplainCmd `cmd:"" help:"Why a host is not being crawled now."`
}

// Help says what it takes.
func (CtlCmd) Help() string {
	return `The crawl must have been begun with --api ADDR on this machine:

  orbweaver crawl --api 127.0.0.1:7480 …
  orbweaver ctl explain www.example.org

The address and the token stand in state/api.json of the crawl directory.`
}

// CtlStatusCmd is "ctl status".
type CtlStatusCmd struct{}

// Run prints the status.
func (CtlStatusCmd) Run(c *cli, out io.Writer) error { return c.Ctl.ask(out, "/status") }

// CtlExplainCmd is "ctl explain".
type CtlExplainCmd struct {
	Host string `arg:"" help:"Host name, without scheme and port."`
}

// Run prints the explanation.
func (e CtlExplainCmd) Run(c *cli, out io.Writer) error {
	return c.Ctl.ask(out, "/explain?host="+url.QueryEscape(e.Host))
}

// ask puts a question to the running crawl and prints the answer.
func (c *CtlCmd) ask(out io.Writer, path string) error {
	b, err := os.ReadFile(filepath.Join(c.Dir, agent.APIFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &agent.ConfigError{Text: fmt.Sprintf("no crawl with --api is running in %s; name its directory with --dir", c.Dir)}
	}
	if err != nil {
		return err
	}
	var access agent.APIAccess
	if err := json.Unmarshal(b, &access); err != nil {
		return fmt.Errorf("%s: %w", agent.APIFile, err)
	}
	req, err := http.NewRequest("GET", "http://"+access.Addr+path, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", agent.APIFile, err)
	}
	req.Header.Set("Authorization", "Bearer "+access.Token)
	res, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return fmt.Errorf("the crawl in %s does not answer (was it killed?): %w", c.Dir, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the crawl answers: %s", strings.TrimSpace(string(answer)))
	}
	_, err = out.Write(answer)
	return err
}
