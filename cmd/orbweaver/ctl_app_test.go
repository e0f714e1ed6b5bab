package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// SetApplication knows two agents, of which a2 has not got the order. The application "same" is already as asked. With
// "early", the agent does not know all others yet.
func (c *canned) SetApplication(_ context.Context, q *pb.SetApplicationRequest) (*pb.SetApplicationResponse, error) {
	r := &pb.SetApplicationResponse{Application: &pb.Application{Name: q.Name, Share: 2, Scope: "domain", Depth: 3,
		Strategy: "follow", Exclude: []string{"/a\tb/"}, Pages: true}}
	switch q.Name {
	case "same":
	case "early":
		r.Told, r.WaitsFor = []*pb.Told{{Agent: "a1"}}, "3 agents"
	default:
		r.Told = []*pb.Told{{Agent: "a1"}, {Agent: "a2", Error: "no\nanswer"}}
	}
	return r, c.took("SetApplication", q)
}

func (c *canned) RemoveApplication(_ context.Context, q *pb.RemoveApplicationRequest) (*pb.RemoveApplicationResponse,
	error) {
	return &pb.RemoveApplicationResponse{Order: "a1-3", Told: []*pb.Told{{Agent: "a1"}}}, c.took("RemoveApplication", q)
}

func (c *canned) Feed(ctx context.Context, q *pb.FeedRequest) (*pb.FeedResponse, error) {
	seeds := &pb.AddSeedsRequest{}
	for _, u := range q.Urls {
		seeds.Urls = append(seeds.Urls, u.Url)
	}
	asked := c.asked
	r, err := c.AddSeeds(ctx, seeds)
	c.took("Feed", q)
	c.asked = asked + "; " + c.asked
	return &pb.FeedResponse{Urls: r.GetSeeds()}, err
}

func (c *canned) Applications(context.Context, *pb.ApplicationsRequest) (*pb.ApplicationsResponse, error) {
	return &pb.ApplicationsResponse{Applications: []*pb.Application{
		{Name: "news", Share: 1, Strategy: "follow", Scope: "host", Depth: -1,
			State:  &pb.ApplicationState{Queued: 12345, Fetched: 6, Shared: 1},
			Agents: []*pb.ApplicationState{{Agent: "a1"}, {Agent: "a2", Error: "no\nanswer"}}},
		{Name: "shop", Share: 0.5, Strategy: "list", Depth: -1, Pages: true, Error: "15 are\nin force",
			State: &pb.ApplicationState{Unacknowledged: 10000, Held: true}},
	}}, c.err
}

func TestCtlApp(t *testing.T) {
	const is = ": share 2, strategy follow, scope domain, depth 3, exclude /a\\tb/, pages are kept"
	const told = "; a1 obeys\na2 does not know it yet, and is told as soon as it answers: no\\nanswer\n"
	for _, c := range []struct {
		args, asked    string
		code           int
		stdout, stderr string
	}{
		{args: "app news", asked: `SetApplication name:"news"`, stdout: "news" + is + told},
		{args: "app early", asked: `SetApplication name:"early"`, stdout: "early" + is +
			"; a1 obeys\nthe agent waits for 3 agents; other agents are told when they join\n"},
		{args: "app same", asked: `SetApplication name:"same"`, stdout: "same" + is + "; nothing has changed\n"},
		{args: "app news --share 2 --scope domain --depth 3 --pages --exclude x --include y --strategy follow --why w",
			asked: `SetApplication name:"news" share:2 scope:"domain" depth:3 strategy:"follow" pages:true ` +
				`include:{patterns:"y"} exclude:{patterns:"x"} why:"w"`, stdout: "news" + is + told},
		{args: "app news --depth none --pages=false --include=", stdout: "news" + is + told,
			asked: `SetApplication name:"news" depth:-1 pages:false include:{}`},
		{args: "app same u1 bad", code: 1, asked: `SetApplication name:"same"; Feed application:"same" urls:{url:"u1"} ` +
			`urls:{url:"bad"}`, stderr: "orbweaver: 1 URL was refused\n",
			stdout: "same" + is + "\nbad: refused: it is\\nbad\nu1: new at a1\n" +
				"2 URLs: 1 new, 1 refused\n"},
		{args: "app news --remove --why w", asked: `RemoveApplication name:"news" why:"w"`,
			stdout: "news: removed; a1 obeys\n"},
		{args: "apps", stdout: "" +
			"NAME  IS                                        QUEUED  FETCHED  SHARED   PAGES  HELD\n" +
			"news  share 1, strategy follow, scope host      12,345        6       1       0  no\n" +
			"shop  share 0.5, strategy list, pages are kept       0        0       0  10,000  yes\n" +
			"agent a2 answers: no\\nanswer\n" +
			"shop is not in force: 15 are\\nin force\n"},
	} {
		answer := &canned{}
		code, stdout, stderr := ctl(serveAPI(t, answer.handler(), "x"), strings.Fields(c.args)...)
		if code != c.code || stdout != c.stdout || stderr != c.stderr || answer.asked != c.asked {
			t.Errorf("%s: exit code %d, want %d\nasked %q, want %q\nstdout %q\n  want %q\nstderr %q\n  want %q",
				c.args, code, c.code, answer.asked, c.asked, stdout, c.stdout, stderr, c.stderr)
		}
	}
	for _, args := range []string{"app same u1 --json", "apps --json", "app news --remove --json"} {
		_, stdout, stderr := ctl(serveAPI(t, (&canned{}).handler(), "x"), strings.Fields(args)...)
		if !strings.HasPrefix(stdout, "{") || stderr != "" {
			t.Errorf("ctl %s: %q, %q", args, stdout, stderr)
		}
	}
	refused := connect.NewError(connect.CodeNotFound, errors.New("there is no application x"))
	code, _, stderr := ctl(serveAPI(t, (&canned{err: refused}).handler(), "x"), "app", "x", "--remove")
	if code != 1 || stderr != "orbweaver: the crawl answers: there is no application x\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// The status has a table of the applications, if there are any, with the counts of all agents.
func TestCtlStatusApplications(t *testing.T) {
	state := func(queued int64, held bool) []*pb.NamedState {
		return []*pb.NamedState{{Application: "news", State: &pb.ApplicationState{Queued: queued, Held: held,
			Unacknowledged: 5}}}
	}
	r := &pb.StatusResponse{Totals: &pb.Totals{}, Agents: []*pb.AgentStatus{
		{Agent: "a1", State: "crawling", Applications: state(3, false)},
		{Agent: "a2", State: "crawling", Applications: state(4, true)}, {Agent: "a3", State: "silent"}}}
	_, stdout, _ := ctl(serveAPI(t, (&canned{status: r}).handler(), "x"), "status")
	want := "\nAPPLICATION  QUEUED  FETCHED  SHARED  PAGES  HELD\nnews              7        0       0     10  yes\n"
	if !strings.HasSuffix(stdout, want) {
		t.Errorf("got %q, want it to end with %q", stdout, want)
	}
}
