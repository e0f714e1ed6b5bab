package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// The agents of a crawl answer questions and carry out commands.
type agents struct {
	local  *Local
	others Others // nil: the crawl has one agent
}

// names returns the names of all agents, this one included.
func (ag agents) names() []string {
	names := []string{ag.local.Name()}
	if ag.others != nil {
		names = append(names, ag.others.Names()...)
	}
	slices.Sort(names)
	return names
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// chosen returns the agent with a name, or all agents if it is empty.
func (ag agents) chosen(agent string) ([]string, error) {
	names := ag.names()
	switch {
	case agent == "":
		return names, nil
	case slices.Contains(names, agent):
		return []string{agent}, nil
	case len(names) == 1 && names[0] == "":
		return nil, problem(connect.CodeNotFound, "no agent %.80q: this crawl has one agent, without a name", agent)
	}
	return nil, problem(connect.CodeNotFound, "no agent %.80q is present; there are %s", agent,
		strings.Join(names, ", "))
}

// answerFields bounds the fields of an agent's answer. 500 events have the most.
const answerFields = 1 << 17

// ask puts a request to an agent, which may be this one.
func (ag agents) ask(ctx context.Context, agent, method string, request, response proto.Message) error {
	q, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	var b []byte
	switch {
	case agent == ag.local.Name():
		b, err = ag.local.Answer(ctx, method, q)
	case ag.others == nil:
		err = fmt.Errorf("no agent %.80q: this crawl has one agent", agent)
	default:
		b, err = ag.others.Ask(ctx, agent, method, q)
	}
	if err != nil {
		return err
	}
	if err := inbound.Unmarshal(b, response, answerFields); err != nil {
		return err
	}
	finite(response.ProtoReflect())
	return nil
}

// finite removes numbers from an agent's answer that are infinite or not a number: they would spoil sums and pictures.
func finite(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					finite(v.Message())
					return true
				})
			}
		case f.Message() != nil && f.IsList():
			for i := range v.List().Len() {
				finite(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			finite(v.Message())
		case f.Kind() == protoreflect.DoubleKind && !f.IsList():
			if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
				m.Clear(f)
			}
		}
		return true
	})
}

// answers puts a command to agents.
func (ag agents) answers(ctx context.Context, names []string, method string, request proto.Message) []*pb.Answer {
	answers := make([]*pb.Answer, len(names))
	ag.each(ctx, names, func(ctx context.Context, i int, name string) {
		a := new(pb.Answer)
		if err := ag.ask(ctx, name, method, request, a); err != nil {
			a = &pb.Answer{Error: err.Error(), Code: codeSilent}
		}
		a.Agent = name
		answers[i] = a
	})
	return answers
}

// The values of pb.Answer.Code, because errors do not travel.
const (
	codeElsewhere = "elsewhere"
	codeHost      = "host"
	codeSilent    = "silent"
	codeFailed    = "failed"
)

// ofHost puts a command for a host to all agents, and returns the answers of those that it concerns.
func (ag agents) ofHost(ctx context.Context, method, host string, request proto.Message) ([]*pb.Answer, error) {
	if host == "" {
		return nil, problem(connect.CodeInvalidArgument, "no host: give one, such as www.example.org")
	}
	names := ag.names()
	answers := ag.answers(ctx, names, method, request)
	concerned := slices.DeleteFunc(slices.Clone(answers), func(a *pb.Answer) bool {
		return a.Code == codeElsewhere
	})
	if len(concerned) == 0 {
		return nil, problem(connect.CodeUnavailable, "each agent says that another one crawls the host: it is moving; "+
			"try again in some seconds. %s", answers[0].Error)
	}
	switch a := concerned[0]; {
	case a.Code == codeHost:
		return nil, problem(connect.CodeInvalidArgument, "%s", a.Error)
	case a.Error != "" && len(names) == 1:
		return nil, problem(connect.CodeUnavailable, "%s", a.Error)
	}
	return concerned, nil
}

// ErrMethod reports a request of another agent that this version does not know.
var ErrMethod = errors.New("this agent does not know the command; it has another version")

// Answer carries out a request that the Operator of another agent has passed on, or this agent's own part of one. The
// response is a pb.AgentStatus, the answer to a question of a Viewer, or a pb.Answer.
func (l *Local) Answer(ctx context.Context, method string, request []byte) (response []byte, err error) {
	if b, known, err := l.answerView(ctx, method, request); known {
		return b, err
	}
	var text string
	switch method {
	case "Status":
		return proto.Marshal(l.Status())
	case "Explain":
		var q pb.ExplainRequest
		if err := decode(method, request, &q); err != nil {
			return nil, err
		}
		text, err = l.Explain(ctx, q.Host, q.Url)
	case "Waiting", "Drop":
		var q pb.DropRequest // both have the host in field 1
		if err := decode(method, request, &q); err != nil {
			return nil, err
		}
		fn := map[string]func(context.Context, string) (string, error){"Waiting": l.Waiting,
			"Drop": l.Drop}[method]
		text, err = fn(ctx, q.Host)
	case "Checkpoint":
		text, err = l.Checkpoint(ctx)
	case "Stop":
		text, err = l.Stop(ctx)
	case "Leave":
		text, err = l.Leave(ctx)
	default:
		return l.answerQueue(ctx, method, request)
	}
	a := &pb.Answer{Text: text}
	switch {
	case err == nil:
	case errors.Is(err, ErrElsewhere):
		a.Code = codeElsewhere
	case errors.Is(err, ErrHost):
		a.Code = codeHost
	default:
		a.Code = codeFailed
	}
	if err != nil {
		a.Error = err.Error()
	}
	return proto.Marshal(a)
}
