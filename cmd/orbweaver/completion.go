package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

// CompletionCmd implements "completion".
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Print the script of this shell: bash, zsh or fish."`
}

// Help explains where each script belongs.
func (CompletionCmd) Help() string {
	return `The script completes commands, flags, their values and files when you press Tab.
The Debian package installs it. Otherwise load it in each new shell:

  bash    echo 'source <(orbweaver completion bash)' >>~/.bashrc
  zsh     echo 'source <(orbweaver completion zsh)' >>~/.zshrc
  fish    orbweaver completion fish >~/.config/fish/completions/orbweaver.fish

In ~/.zshrc, the line comes after compinit.`
}

// Run prints the script.
func (c CompletionCmd) Run(out io.Writer) error {
	script, ok := cli.CompletionScript(c.Shell, "orbweaver")
	if !ok {
		return bad("no completion for the shell %q", c.Shell) // the parser refuses other shells
	}
	_, err := io.WriteString(cli.Exact(out), script)
	return err
}

// CompleteCmd implements "__complete", which the scripts of "completion" call.
type CompleteCmd struct {
	Words []string `arg:"" optional:"" help:"The words behind the program's name, up to the cursor."`
}

// Run prints the completions of the last word.
func (c CompleteCmd) Run(k *kong.Context, out io.Writer) error {
	all := cli.Complete(k.Model, c.Words)
	if len(c.Words) > 0 && c.Words[0] == "ctl" {
		kind := all.Kind
		if kind == "URL-OR-HOST" {
			kind = "HOST"
		}
		if list := ctlValues[kind]; list != nil {
			all.Offer(ofCrawl(ctlDir(c.Words), all.Typed, list)...)
		}
	}
	_, err := fmt.Fprint(cli.Exact(out), all)
	return err
}

const (
	// completeTime bounds the wait of a user who has pressed Tab.
	completeTime = time.Second
	// completeMost is how many values are offered.
	completeMost = 100
)

// ctlDir returns the directory that a command line of ctl names.
func ctlDir(words []string) string {
	dir := runningDir(defaultDir)
	for i, w := range words {
		name, value, given := strings.Cut(w, "=")
		switch {
		case name != "--dir" && name != "-o":
		case given:
			dir = value
		case i+1 < len(words):
			dir = words[i+1]
		}
	}
	return dir
}

// ctlValues returns values of the running crawl by the kind of a flag or an argument. Those that do not begin with
// typed are left out later.
var ctlValues = map[string]func(ctx context.Context, o operator, typed string) ([]string, error){
	"HOST": func(ctx context.Context, o operator, typed string) (names []string, err error) {
		res, err := o.Hosts(ctx, &pb.HostsRequest{Search: typed, By: pb.HostOrder_HOST_ORDER_NAME, Limit: 1000})
		for _, h := range res.GetHosts() {
			names = append(names, h.Host)
		}
		return names, err
	},
	"ID": func(ctx context.Context, o operator, _ string) (ids []string, err error) {
		res, err := o.Orders(ctx, &pb.OrdersRequest{})
		for _, s := range slices.Backward(res.GetOrders()) { // the latest first
			ids = append(ids, s.Id)
		}
		return ids, err
	},
	"AGENT": func(ctx context.Context, o operator, _ string) (names []string, err error) {
		res, err := o.Shares(ctx, &pb.SharesRequest{}) // waits for no other agent
		for _, a := range res.GetAgents() {
			names = append(names, a.Agent)
		}
		return names, err
	},
}

// ofCrawl returns values of the running crawl in dir that begin with typed, or none if the crawl does not answer.
func ofCrawl(dir, typed string,
	list func(ctx context.Context, o operator, typed string) ([]string, error)) (values []string) {
	o, err := (&CtlCmd{Dir: dir}).open()
	if err != nil {
		return nil
	}
	defer o.close()
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	all, err := list(ctx, o, typed)
	if err != nil {
		return nil
	}
	for _, v := range all {
		if v != "" && strings.HasPrefix(v, typed) && len(values) < completeMost && !slices.Contains(values, v) {
			values = append(values, report.OneLine(v))
		}
	}
	return values
}
