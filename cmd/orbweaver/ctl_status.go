package main

import (
	"context"
	"io"

	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
)

// CtlStatusCmd implements "ctl status".
type CtlStatusCmd struct {
	AgentFlag `embed:""`
	ShowFlags `embed:""`
}

// Help explains the columns.
func (CtlStatusCmd) Help() string {
	return `The table has a row for each agent:

  STATE       crawling, paused (by ctl pause), waiting (for other agents,
              before the crawl starts), leaving (after ctl leave),
              stopping, or silent (it does not answer)
  PAGES       2xx responses, in all runs
  PAGES/S     pages a second, in the last seconds
  RECEIVED    bytes
  QUEUED      URLs that wait for a visit
  KNOWN       different URLs accepted
  OPEN        open requests
  ERRORS      URLs given up after an error

An agent that is not there any more has a row with its last counts, as far as
another agent knows them:

  stopped     It ended in order. It can be resumed.
  left        It handed its hosts to the other agents (ctl leave).
  lost        It was killed, failed, or cannot be reached.

The last row is the sum. Lines below the table say what agents wait for, since
when and why others have gone, and whose counts nobody knows. On a narrow
terminal the table goes without some columns.

Then come the limit of the crawl's rate and the table of the applications, if there
are any. "orbweaver ctl apps --help" explains its columns.

With --watch on a terminal, the table is drawn in place.

With --json, "status" of each agent has its counts; docs/reference/json.md
explains them.

  orbweaver ctl status --watch
  orbweaver ctl status --json --agent a2`
}

// Run prints the status.
func (s CtlStatusCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	return s.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		res, err := o.Status(ctx, &pb.StatusRequest{Agent: s.Agent})
		if err != nil {
			return content{}, err
		}
		columns, narrow := widthOf(out)
		return content{message: res, text: readout.Status(res, columns, narrow)}, nil
	})
}

// widthOf returns how many columns a line of out may have, and whether out is a terminal.
func widthOf(out io.Writer) (columns int, terminal bool) {
	if t := cli.Terminal(out); t != nil {
		if n, _, err := term.GetSize(int(t.Fd())); err == nil && n > 1 {
			return n - 1, true
		}
	}
	return 80, false
}
