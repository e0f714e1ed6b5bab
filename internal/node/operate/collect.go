package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

const (
	pagesUsual, pagesMost = 100, 1000 // of a response
	waitMost              = 60        // seconds
	// bodyUsual and bodyMost bound the body of a page, and bodiesMost those of a response, in bytes.
	bodyUsual, bodyMost = 1 << 20, 8 << 20
	bodiesMost          = 16 << 20
	// bodyCost is how many bytes of memory a byte of a body takes: received, in the response, and encoded.
	bodyCost = 3
	// pagesTurn is how long an agent waits for a page before it is asked again. It is shorter than patience.
	pagesTurn = 5 * time.Second
	// pagesLinger is how long the pages of some agents wait for those of others.
	pagesLinger = time.Second
)

// Pages implements pb.OperatorHandler. It asks all agents. If none has a page, it asks again, and each agent waits for
// one.
//
//	ListPages of all agents -> merge by time -> ListBodies of the agents -> response and token
func (o *Operator) Pages(ctx context.Context, q *pb.PagesRequest) (*pb.PagesResponse, error) {
	switch {
	case q.Limit < 0 || q.Limit > pagesMost:
		return nil, problem(connect.CodeInvalidArgument, "limit %d: give 1 to %d pages, or 0 for %d", q.Limit,
			pagesMost, pagesUsual)
	case q.Wait < 0 || q.Wait > waitMost:
		return nil, problem(connect.CodeInvalidArgument, "wait %d: give 0 to %d seconds", q.Wait, waitMost)
	case q.MaxBodyBytes < 0 || q.MaxBodyBytes > bodyMost:
		return nil, problem(connect.CodeInvalidArgument, "max_body_bytes %d: give 1 to %d, or 0 for %d", q.MaxBodyBytes,
			bodyMost, bodyUsual)
	}
	end := time.Now().Add(time.Duration(q.Wait) * time.Second)
	for first := true; ; first = false {
		at, err := o.pagesPosition(q.Application, q.After)
		if err != nil {
			return nil, err
		}
		wait := time.Duration(0)
		if !first {
			wait = max(min(time.Until(end), pagesTurn), 0)
		}
		lists, silent := o.listPages(ctx, q, at, wait)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := &pb.PagesResponse{Silent: silent, Token: q.After}
		chosen := mergePages(lists, int(cmpLimit(q.Limit, pagesUsual)))
		if q.Body && len(chosen) > 0 {
			if chosen, err = o.readBodies(ctx, q, chosen, r); err != nil {
				return nil, err
			}
		}
		if len(chosen) > 0 {
			for _, p := range chosen {
				at.reach(p)
				p.Notes, p.Note = strings.FieldsFunc(p.Note, func(r rune) bool { return r == ',' }), ""
				r.Pages = append(r.Pages, p.FetchedPage)
			}
			r.Token = token(&at.PagesPosition)
			return r, nil
		}
		if len(silent) > 0 && len(silent) == len(lists) && !first {
			clock.Pause(ctx, min(time.Until(end), time.Second)) // no agent waits
		}
		if time.Until(end) <= 0 {
			return r, nil
		}
	}
}

// A pagesAt is the content of a token.
type pagesAt struct{ pb.PagesPosition }

// of returns the position of an agent, or nil.
func (a *pagesAt) of(agent string) *pb.AgentPosition {
	for _, p := range a.Agents {
		if p.Agent == agent {
			return p
		}
	}
	return nil
}

// reach moves the position of an agent behind a page.
func (a *pagesAt) reach(p listedPage) {
	at := a.of(p.Agent)
	if at == nil {
		at = &pb.AgentPosition{Agent: p.Agent}
		a.Agents = append(a.Agents, at)
	}
	at.Log, at.Position = p.log, p.next
}

// pagesPosition reads a token of an application that collects pages. An empty one is the first position.
func (o *Operator) pagesPosition(application, text string) (*pagesAt, error) {
	a, err := o.inForce(application)
	if err != nil {
		return nil, err
	}
	if !a.Pages {
		return nil, problem(connect.CodeFailedPrecondition, "application %s has no pages to collect: define it so",
			a.Name)
	}
	at := &pagesAt{pb.PagesPosition{Application: a.Name, Made: a.Made}}
	if text == "" {
		return at, nil
	}
	read := readToken(text, len(o.agents.names()), &at.PagesPosition)
	switch {
	case !read || len(at.Agents) == 0 || repeats(at.Agents, (*pb.AgentPosition).GetAgent):
		return nil, problem(connect.CodeInvalidArgument, "token %.80q is damaged; give that of a response with pages, "+
			"unchanged", text)
	case at.Application != a.Name:
		return nil, problem(connect.CodeInvalidArgument, "the token is of application %.80s, not of %s", at.Application,
			a.Name)
	case at.Made != a.Made:
		return nil, problem(connect.CodeInvalidArgument, "the token is of an earlier application %s, which has been "+
			"removed; begin without a token", a.Name)
	}
	return at, nil
}

// A listedPage is a page of an agent. log and next are the position after it.
type listedPage struct {
	*pb.FetchedPage
	log  string
	next int64
}

// listPages asks all agents for pages, and waits for the first ones. It returns a list for each agent, and the agents
// that do not answer. When an agent has pages, the others have pagesLinger more or, if they wait, no time.
func (o *Operator) listPages(ctx context.Context, q *pb.PagesRequest, at *pagesAt, wait time.Duration) (
	lists [][]listedPage, silent []*pb.Answer) {
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	names := o.agents.names()
	lists, errs := make([][]listedPage, len(names)), make([]error, len(names))
	late := make([]bool, len(names)) // the call ended after all had been cancelled
	found := make(chan struct{}, len(names))
	done := make(chan struct{})
	var asks callGroup
	asks.run(func() {
		defer close(done)
		o.agents.each(all, names, func(ctx context.Context, i int, name string) {
			p := at.of(name)
			var r pb.ListedPages
			errs[i] = o.agents.ask(ctx, name, "ListPages", &pb.ListPages{Application: q.Application, Log: p.GetLog(),
				From: p.GetPosition(), Limit: cmpLimit(q.Limit, pagesUsual), WaitMs: wait.Milliseconds()}, &r)
			late[i] = all.Err() != nil
			if errs[i] == nil && len(r.Positions) != len(r.Pages) {
				errs[i] = ErrMethod
			}
			if errs[i] != nil || len(r.Pages) == 0 {
				return
			}
			for n, page := range r.Pages {
				page.Agent, page.Body = name, nil
				lists[i] = append(lists[i], listedPage{page, r.Log, r.Positions[n]})
			}
			found <- struct{}{}
		})
	})
	cut := false
	select {
	case <-done:
	case <-found:
		if wait == 0 {
			linger := time.NewTimer(pagesLinger)
			defer linger.Stop()
			select {
			case <-done:
			case <-linger.C:
			}
		} else {
			cut = true // the others have nothing yet
		}
		cancel()
	}
	asks.wait()
	for i, name := range names {
		if errs[i] != nil && !(cut && late[i]) {
			silent = append(silent, &pb.Answer{Agent: name, Error: errs[i].Error(), Code: codeSilent})
		}
	}
	return lists, silent
}

// archivedBy returns the agent whose archive has the record of a page.
func (p listedPage) archivedBy() string {
	if p.File == "" {
		for note := range strings.SplitSeq(p.Note, ",") {
			if agent, ok := strings.CutPrefix(note, "shared:"); ok {
				return agent
			}
		}
	}
	return p.Agent
}

// mergePages returns the first pages of the lists by time. The pages of each list keep their order.
func mergePages(lists [][]listedPage, most int) (merged []listedPage) {
	lists = slices.Clone(lists)
	for len(merged) < most {
		first := -1
		for i, list := range lists {
			if len(list) > 0 && (first < 0 || list[0].Time.AsTime().Before(lists[first][0].Time.AsTime())) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		merged, lists[first] = append(merged, lists[first][0]), lists[first][1:]
	}
	return merged
}

// readBodies adds the bodies to pages, and returns the first of the pages: as many as fit into a response, and as there
// is room for (inbound.Take). Pages whose agent does not answer any more are left out, and the agent becomes one of
// r.Silent.
func (o *Operator) readBodies(ctx context.Context, q *pb.PagesRequest, pages []listedPage, r *pb.PagesResponse) (
	whole []listedPage, err error) {
	most := cmp.Or(q.MaxBodyBytes, bodyUsual)
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	room, err := inbound.Take(soon, bodyCost*min(int64(len(pages))*most, bodiesMost))
	if err != nil {
		return nil, problem(connect.CodeUnavailable, "the agent sends as many bodies as its memory permits; try again "+
			"later")
	}
	limit := max(room/bodyCost, most)
	byAgent := map[string][]listedPage{}
	var names []string
	sum := int64(0)
	for i, p := range pages {
		at := p.archivedBy()
		// A body may be longer than its size, which is that of the encoded one. So each agent may send most bytes.
		if sum += min(max(p.Size, 0), most); i > 0 && (sum > limit ||
			byAgent[at] == nil && int64(len(names)+1)*most > limit) {
			pages = pages[:i]
			break
		}
		if byAgent[at] == nil {
			names = append(names, at)
		}
		byAgent[at] = append(byAgent[at], p)
	}
	got := make([]int, len(names)) // pages with their bodies
	errs := make([]error, len(names))
	o.agents.each(ctx, names, func(ctx context.Context, i int, name string) {
		got[i], errs[i] = o.bodiesOf(ctx, name, byAgent[name], most, limit/int64(len(names)))
	})
	left, failed, missing := map[string]int{}, map[string]bool{}, map[string]bool{}
	for i, name := range names {
		if left[name], failed[name] = got[i], errs[i] != nil; errs[i] != nil {
			r.Silent = append(r.Silent, &pb.Answer{Agent: name, Error: errs[i].Error(), Code: codeSilent})
		}
	}
	sum = 0
	for _, p := range pages {
		if at := p.archivedBy(); left[at] > 0 {
			left[at]--
		} else if at == p.Agent || !failed[at] {
			missing[p.Agent] = true
		} else {
			p.BodyError = "agent " + at + ", which has it in its archive, does not answer"
		}
		if missing[p.Agent] { // no later page of the agent may come first
			continue
		}
		if sum += int64(len(p.Body)); sum > limit {
			break
		}
		whole = append(whole, p)
	}
	return whole, nil
}

// noRecord says why no archive has the response of a page with a note.
func noRecord(note string) string {
	notes := strings.Split(note, ",")
	switch {
	case slices.Contains(notes, "noarchive"):
		return "the response says noarchive: the setting obey-noarchive leaves it out of the archive"
	case slices.Contains(notes, "not-kept"):
		return "the setting keep leaves the response out of the archive"
	}
	return "the archive does not have the response"
}

// bodiesOf adds the bodies of pages of one agent, each of at most most bytes, until they have limit bytes. It returns
// how many of the pages are complete.
func (o *Operator) bodiesOf(ctx context.Context, agent string, pages []listedPage, most, limit int64) (
	complete int, err error) {
	sum := int64(0)
	for complete < len(pages) && sum < limit {
		var q pb.ListBodies
		var at []listedPage
		for _, p := range pages[complete:] {
			if p.File != "" || p.archivedBy() != p.Agent {
				n := int64(len(p.Body))
				q.Parts = append(q.Parts, &pb.BodyPart{File: p.File, Offset: p.Offset, Url: p.Url, Skip: n,
					Most: most - n})
				at = append(at, p)
			} else if p.Status > 0 {
				p.BodyError = noRecord(p.Note)
			}
		}
		if len(at) == 0 {
			return len(pages), nil
		}
		var r pb.ListedBodies
		if err := o.agents.ask(ctx, agent, "ListBodies", &q, &r); err != nil {
			return complete, err
		}
		if len(r.Parts) == 0 || len(r.Parts) > len(at) {
			return complete, ErrMethod
		}
		for i, d := range r.Parts {
			p := at[i]
			p.Body = append(p.Body, d.Data[:min(int64(len(d.Data)), most-int64(len(p.Body)))]...)
			sum += int64(len(d.Data))
			p.BodyError = d.Error
			if p.Truncated = d.More || d.Truncated; d.More && d.Error == "" && int64(len(p.Body)) < most {
				if len(d.Data) == 0 {
					return complete, ErrMethod
				}
				break // the rest of it comes next
			}
			for complete < len(pages) && pages[complete].FetchedPage != p.FetchedPage {
				complete++ // has no record
			}
			complete++
		}
	}
	return complete, nil
}

func (o *Operator) Acknowledge(ctx context.Context, q *pb.AcknowledgeRequest) (*pb.AcknowledgeResponse, error) {
	if q.Token == "" {
		return nil, problem(connect.CodeInvalidArgument, "no token: give that of a response with pages")
	}
	at, err := o.pagesPosition(q.Application, q.Token)
	if err != nil {
		return nil, err
	}
	present := o.agents.names()
	names := make([]string, len(at.Agents))
	for i, p := range at.Agents {
		names[i] = p.Agent
	}
	errs := make([]error, len(names))
	o.agents.each(ctx, names, func(ctx context.Context, i int, name string) {
		if !slices.Contains(present, name) {
			errs[i] = errors.New("the agent is not present")
			return
		}
		p := at.Agents[i]
		errs[i] = o.agents.ask(ctx, name, "AcknowledgePages", &pb.AcknowledgePages{Application: q.Application,
			Log: p.Log, Position: p.Position}, &pb.AcknowledgeResponse{})
	})
	r := &pb.AcknowledgeResponse{}
	for i, name := range names {
		if errs[i] != nil {
			r.Silent = append(r.Silent, &pb.Answer{Agent: name, Error: errs[i].Error(), Code: codeSilent})
		}
	}
	if len(r.Silent) == len(names) {
		return nil, unanswered(r.Silent)
	}
	return r, nil
}
