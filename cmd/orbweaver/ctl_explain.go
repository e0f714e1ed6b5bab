package main

import (
	"context"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// CtlExplainCmd implements "ctl explain".
type CtlExplainCmd struct {
	About     string `arg:"" name:"url-or-host" help:"${ctl_explain}"`
	ShowFlags `embed:""`
}

// Help explains the answer, and who gives it.
func (CtlExplainCmd) Help() string {
	return `Of a URL, the answer says whether it waits, at which place of its host's queue, or
is finished, excluded, out of scope or unknown. Of its host, and of the crawl as a
whole, it lists every reason why they are not being fetched now. The lines "when"
say when that will be; a time with "about" is an estimate.

  orbweaver ctl explain www.example.org
  orbweaver ctl explain https://www.example.org/news/1

In a cluster, the agent that crawls the host answers. If it is not known yet
which agent that is, or if several may crawl the host, each of them answers.`
}

// Run prints the explanation.
func (e CtlExplainCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	q, err := e.request()
	if err != nil {
		return err
	}
	return e.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		res, err := o.Explain(ctx, q)
		if err != nil {
			return content{}, err
		}
		var text strings.Builder
		err = printAnswers(&text, res.Answers)
		return content{message: res, text: text.String(), err: err}, nil
	})
}

// request returns what to ask. A name with a path is a URL, also without a scheme.
func (e CtlExplainCmd) request() (*pb.ExplainRequest, error) {
	if _, wide, _ := input.Wide(e.About); wide && !strings.Contains(e.About, "/") {
		return nil, bad("%s: give one host, or a URL; \"orbweaver ctl hosts\" lists the hosts", e.About)
	}
	host, err := input.Host(e.About)
	if err != nil {
		return nil, err
	}
	q := &pb.ExplainRequest{Host: host}
	text := strings.TrimPrefix(e.About, "//")
	if _, path, _ := strings.Cut(text, "/"); path != "" {
		u, err := input.ParseURL("URL", text)
		if err != nil {
			return nil, err
		}
		q.Url = u.URL.String()
	}
	return q, nil
}
