package operate

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// Queues are the links that wait at this agent. Safe for concurrent use.
type Queues interface {
	// ListQueue tells about a page of a listing, which is a copy of the queue of one moment. q.Listing names the
	// listing; 0 makes one of the links that the request asks for. While the agent still reads the queue, and for
	// Preview, the answer has the counts alone. The answer names the listing. It waits for a short time only. The error
	// is for people.
	ListQueue(ctx context.Context, q *pb.ListQueue) (*pb.ListedQueue, error)
}

const (
	queueLimit, queueMost     = 100, 1000 // links of a page
	previewLinks, previewMost = 5, 100    // examples of an agent
	// queueTime bounds a call. If an agent still reads then, the caller asks again.
	queueTime = 8 * time.Second
)

// token returns the text of a position.
func token(p proto.Message) string {
	b, err := proto.Marshal(p)
	if err != nil {
		return "" // it has texts that came from agents
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// A token may be longer than tokenBytes by tokenAgent for each agent.
const tokenBytes, tokenAgent = 64 << 10, 256

// readToken reads the text of a position in a crawl with some agents. The caller may have made it. ok reports that it
// is one.
func readToken(text string, agents int, p proto.Message) (ok bool) {
	if len(text) > tokenBytes+tokenAgent*agents {
		return false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && inbound.Unmarshal(b, p, inbound.MaxFields) == nil
}

// repeats reports whether two positions in a token are of one agent.
func repeats[P any](list []P, name func(P) string) bool {
	met := map[string]bool{}
	for _, p := range list {
		met[name(p)] = true
	}
	return len(met) < len(list)
}

// position reads what token has returned, or returns the first position.
func (o *Operator) position(text, agent string) (*pb.QueuePosition, error) {
	p := new(pb.QueuePosition)
	if text != "" {
		damaged := !readToken(text, len(o.agents.names()), p) || len(p.Agents) == 0 ||
			repeats(p.Agents, (*pb.QueueAgent).GetName) ||
			slices.ContainsFunc(p.Agents, func(a *pb.QueueAgent) bool { return a.From < 0 })
		if !damaged && p.Pattern != "" {
			damaged = verbs.CheckPattern(p.Pattern) != nil
		}
		if damaged {
			return nil, problem(connect.CodeInvalidArgument, "token %.80q is damaged; begin with the first page", text)
		}
		return p, nil
	}
	names, err := o.agents.chosen(agent)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p.Agents = append(p.Agents, &pb.QueueAgent{Name: name})
	}
	return p, nil
}

// listQueue asks an agent.
func (o *Operator) listQueue(ctx context.Context, name string, q *pb.ListQueue) (*pb.ListedQueue, error) {
	r := new(pb.ListedQueue)
	if err := o.agents.ask(ctx, name, "ListQueue", q, r); err != nil {
		return nil, err
	}
	if r.Count == nil {
		return nil, ErrMethod
	}
	r.Count.Agent = name
	return r, nil
}

// Queue implements pb.OperatorHandler. The pages of an agent follow those of the one before.
func (o *Operator) Queue(ctx context.Context, q *pb.QueueRequest) (*pb.QueueResponse, error) {
	if q.Pattern != "" {
		if err := verbs.CheckPattern(q.Pattern); err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
	}
	if q.Host != "" {
		host, err := input.Host(q.Host)
		if err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
		q.Host = host
	}
	if q.Limit < 0 || q.Limit > queueMost {
		return nil, problem(connect.CodeInvalidArgument, "limit %d: give 1 to %d links", q.Limit, queueMost)
	}
	at, err := o.position(q.Token, q.Agent)
	if err != nil {
		return nil, err
	}
	if q.Token == "" {
		at.Host, at.Pattern = q.Host, q.Pattern
	}
	r := &pb.QueueResponse{}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	end := time.Now().Add(queueTime)
	for len(at.Agents) > 0 {
		a := at.Agents[0]
		first := a.Listing == 0
		page, err := o.listQueue(ctx, a.Name, &pb.ListQueue{Listing: a.Listing, From: a.From, Host: at.Host,
			Pattern: at.Pattern, Limit: cmpLimit(q.Limit, queueLimit), Brief: q.Brief})
		if err != nil && !first {
			return nil, problem(connect.CodeUnavailable, "agent %s: %v; begin with the first page", a.Name, err)
		}
		if err != nil {
			r.Agents = append(r.Agents, &pb.QueueCount{Agent: a.Name, Error: err.Error()})
			at.Agents = at.Agents[1:]
			continue
		}
		a.Listing, a.From = page.Listing, page.Next
		if page.Count.Reading {
			if time.Now().Before(end) {
				continue
			}
			r.Agents = append(r.Agents, page.Count)
			break
		}
		if !a.Told {
			a.Told = true
			r.Agents = append(r.Agents, page.Count)
		}
		for _, l := range page.Links {
			l.Agent = a.Name
		}
		r.Links = page.Links
		if !page.More {
			at.Agents = at.Agents[1:]
		}
		if len(r.Links) > 0 {
			break
		}
	}
	if len(at.Agents) > 0 {
		r.Token = token(at)
	}
	return r, nil
}

func cmpLimit(n int32, usual int32) int32 {
	if n == 0 {
		return usual
	}
	return n
}

func (o *Operator) ExcludePreview(ctx context.Context, q *pb.ExcludePreviewRequest) (*pb.ExcludePreviewResponse,
	error) {
	if err := verbs.CheckPattern(q.Pattern); err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	if q.Examples < 0 || q.Examples > previewMost {
		return nil, problem(connect.CodeInvalidArgument, "%d examples: give 1 to %d", q.Examples, previewMost)
	}
	at, err := o.position(q.Token, "")
	if err != nil {
		return nil, err
	}
	r := &pb.ExcludePreviewResponse{Agents: make([]*pb.QueueCount, len(at.Agents))}
	names := make([]string, len(at.Agents))
	for i, a := range at.Agents {
		names[i] = a.Name
	}
	end := time.Now().Add(queueTime)
	o.agents.each(ctx, names, func(ctx context.Context, i int, name string) {
		a := at.Agents[i]
		for {
			page, err := o.listQueue(ctx, name, &pb.ListQueue{Listing: a.Listing, Pattern: q.Pattern, Preview: true,
				Limit: cmpLimit(q.Examples, previewLinks)})
			if err != nil {
				r.Agents[i] = &pb.QueueCount{Agent: name, Error: err.Error()}
				return
			}
			if r.Agents[i], a.Listing = page.Count, page.Listing; !page.Count.Reading || time.Now().After(end) {
				return
			}
		}
	})
	for _, c := range r.Agents {
		if c.Reading {
			r.Token = token(at)
		}
	}
	return r, nil
}

// answerQueue is Answer for the calls about the queue, the scope and the seeds.
func (l *Local) answerQueue(ctx context.Context, method string, request []byte) ([]byte, error) {
	switch method {
	case "TakeSeeds":
		var take pb.AddSeedsRequest
		if err := decode(method, request, &take); err != nil {
			return nil, err
		}
		seeds, err := l.TakeSeeds(ctx, take.Urls)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(&pb.AddSeedsResponse{Seeds: seeds})
	case "ListQueue":
		var list pb.ListQueue
		if err := decode(method, request, &list); err != nil {
			return nil, err
		}
		page, err := l.ListQueue(ctx, &list)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(page)
	}
	return l.answerApplication(ctx, method, request)
}
