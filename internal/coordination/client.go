package coordination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Client asks coordinators for their status, as an agent or a coordinator that belongs to no crawl. Safe
// for concurrent use.
type Client struct {
	client *rpc.Client
	caller string // who asks, for messages
	agent  string // the directory of keys, if they are an agent's
}

// Ask returns a client for the coordinators at the addresses. keys is the directory of an agent's or a
// coordinator's keys; empty reaches loopback only. The error is an *input.ConfigError. The caller closes the client.
func Ask(keys string, addrs []string) (*Client, error) {
	name, agent := "status", ""
	var k *rpc.Keys
	if keys != "" {
		var err error
		if k, err = rpc.LoadKeys(disk.OS, keys, nil); err != nil {
			return nil, rpc.KeysError(keys, "an agent or a coordinator", err)
		}
		if name = k.Name(); !k.Coordinator() {
			agent = keys
		}
	}
	if len(addrs) == 0 {
		return nil, input.Errorf("no coordinator: give their addresses with {coordinator}")
	}
	for i, addr := range addrs {
		addrs[i] = strings.TrimSpace(addr)
		if err := checkAddress(addrs[i], keys); err != nil {
			return nil, err
		}
	}
	client := rpc.NewClient(rpc.ClientConfig{Keys: k, Self: func() rpc.Caller { return rpc.Caller{Name: name} }})
	return &Client{client, "this command", agent}, nil
}

// NewClient returns a client that calls through another one. caller is who asks, for messages, such as "this agent".
func NewClient(client *rpc.Client, caller string) *Client {
	return &Client{client: client, caller: caller}
}

// Unanswered says in few words why a coordinator does not answer the caller, such as "this agent".
func Unanswered(caller string, err error) string {
	return strings.NewReplacer("that agent", "that coordinator", "this agent", caller).Replace(rpc.Why(err))
}

// Status returns the status of the coordinator at addr. The error says why there is none, without the address.
func (c *Client) Status(ctx context.Context, addr string) (*Status, error) {
	b, err := coordinator.Client{Peer: c.client.Coordinator(addr)}.Status(ctx)
	if err != nil {
		return nil, errors.New(Unanswered(c.caller, err))
	}
	s := new(Status)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("it has another version: %w", err)
	}
	return s, nil
}

// Forget tells the coordinators at the addresses, or the leader that they name, that an agent does not run. It asks
// until the one that leads has taken the agent off the roster, or until ctx ends. Without keys, the client must reach
// them on loopback; otherwise its keys must be a coordinator's.
func (c *Client) Forget(ctx context.Context, addrs []string, agent string) error {
	if err := rpc.CheckName(agent); err != nil {
		return input.Errorf("%v", err)
	}
	if c.agent != "" {
		return input.Errorf("{keys} %s: these are the keys of an agent; give those of a coordinator", c.agent)
	}
	last, silent := errors.New("no coordinator leads"), 0 // silent: calls in a row without an answer
	leader := ""
	for i := 0; ; i++ {
		addr := cmp.Or(leader, addrs[i%len(addrs)])
		err := coordinator.Client{Peer: c.client.Coordinator(addr)}.Forget(ctx, agent)
		known := leader != ""
		leader = ""
		not, elsewhere := errors.AsType[*rpc.NotLeader](err)
		switch {
		case err == nil:
			return nil
		case errors.As(err, new(*rpc.Refusal)), errors.Is(err, rpc.ErrRejected):
			return errors.New(Unanswered(c.caller, err))
		case elsewhere || errors.Is(err, rpc.ErrAgain):
			if silent = 0; elsewhere && !known && not.Leader != "" {
				leader = not.Leader
				continue
			}
		case ctx.Err() == nil:
			last = fmt.Errorf("%s: %s", addr, Unanswered(c.caller, err))
			if silent++; silent == 2*len(addrs) {
				return last
			}
		}
		if !clock.Pause(ctx, 200*time.Millisecond) {
			return last
		}
	}
}

// An Answer is what a coordinator says of itself, or why it says nothing.
type Answer struct {
	*Status
	Addr string
	Err  error // in few words, without the address
}

// AskAll asks all coordinators for their status, at once. The channel receives the answers, in the order of the
// addresses.
func (c *Client) AskAll(ctx context.Context, addrs []string) <-chan []Answer {
	all := make([]Answer, len(addrs))
	var calls sync.WaitGroup
	for i, addr := range addrs {
		calls.Go(func() {
			s, err := c.Status(ctx, addr)
			all[i] = Answer{s, addr, err}
		})
	}
	done := make(chan []Answer, 1)
	go func() {
		calls.Wait()
		done <- all
	}()
	return done
}

// Taken returns an *input.ConfigError if a coordinator serves a crawl, so that a new one cannot begin.
func Taken(all []Answer) error {
	for _, s := range all {
		if s.Err == nil && s.Ended {
			return input.Errorf("{coordinator} %s: its crawl, %s, has ended, and this agent would start another one; "+
				"start the coordinators with new directories", s.Addr, s.Crawl)
		}
		if s.Err == nil && s.Crawl != "" {
			return input.Errorf("{coordinator} %s: it serves crawl %s already, and this agent would start another "+
				"one; start the coordinators with new directories, or join an agent of their crawl with {join}", s.Addr,
				s.Crawl)
		}
	}
	return nil
}

// Close ends all questions.
func (c *Client) Close() error { return c.client.Close() }
