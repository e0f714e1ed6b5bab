package gossip

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// ErrRefused reports an agent that must not join the cluster. The error has the reason in words.
// The next attempt will be refused, too.
var ErrRefused = errors.New("refused")

// A NameError refuses an agent because of its name. It is an ErrRefused.
type NameError struct {
	Name string
	// Holder is the agent that has the name. It is zero if the name was promised a moment ago
	// to an agent that has not joined yet.
	Holder Agent
}

func (e *NameError) Error() string {
	if e.Holder.Name == "" {
		return fmt.Sprintf("%v: agent name %q has just been given to another agent: each agent needs a name of its own",
			ErrRefused, e.Name)
	}
	return fmt.Sprintf("%v: agent name %q is in use by another agent, at %s: each agent needs a name of its own",
		ErrRefused, e.Name, e.Holder.Addr)
}

// Is makes a NameError an ErrRefused.
func (e *NameError) Is(target error) bool { return target == ErrRefused }

// reserved is how long a name stays reserved for the agent that was admitted with it. Until gossip
// announces that agent, a second agent that asks for the name is refused.
const reserved = 10 * time.Second

type reservation struct {
	instance [16]byte
	until    time.Time
}

// A ConflictError reports another agent with the name of this one. This agent must stop.
type ConflictError struct{ Self, Rival Agent }

func (e *ConflictError) Error() string {
	if e.Self.Instance == e.Rival.Instance {
		return fmt.Sprintf("agent %q: its crawl directory, or a copy of it, is being crawled with by another "+
			"process, at %s: each agent needs a crawl directory of its own", e.Self.Name, e.Rival.Addr)
	}
	return fmt.Sprintf("agent name %q is in use by another agent, at %s: each agent needs a name of its own",
		e.Self.Name, e.Rival.Addr)
}

// stops reports which of two living agents with the same name must stop. Both agents compute the
// same result. Of one instance the later start stays. Of two instances the one stays that is past
// Joining; otherwise the one with the smaller number.
func stops(self, rival Agent) bool {
	if self.Instance == rival.Instance {
		if self.Boot != rival.Boot {
			return self.Boot < rival.Boot
		}
		return strings.Compare(self.Addr, rival.Addr) > 0
	}
	if (self.State == Joining) != (rival.State == Joining) {
		return self.State == Joining
	}
	return bytes.Compare(self.Instance[:], rival.Instance[:]) > 0
}

// Admit decides this agent's answer to another agent's Hello. It returns nil if the candidate
// may join, an ErrRefused or ErrSelf. A *NameError is an ErrRefused that may be temporary: the
// agent that has the name may be dead, and no agent has noticed yet. now is the caller's clock.
func (m *Member) Admit(candidate Agent, now time.Time) error {
	candidate.State = cmp.Or(candidate.State, Joining)
	if err := candidate.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	living := m.living[candidate.Name].Agent
	if candidate.Name == m.self.Name {
		living = m.self
	}
	switch {
	case living.Name == "":
	case candidate.Instance == m.self.Instance && candidate.Boot == m.self.Boot && candidate.Name == m.self.Name &&
		candidate.Addr == m.self.Addr:
		return ErrSelf
	case living.Instance != candidate.Instance:
		return &NameError{candidate.Name, living}
	case candidate.Boot < living.Boot || candidate.Boot == living.Boot && candidate.Addr != living.Addr:
		return fmt.Errorf("%w: agent %q is running already, at %s, from this crawl directory or a copy of it",
			ErrRefused, candidate.Name, living.Addr)
	}
	for name, other := range m.living {
		if other.Instance == candidate.Instance && name != candidate.Name {
			return fmt.Errorf("%w: the crawl directory of agent %q is that of agent %q, at %s, or a copy of it",
				ErrRefused, candidate.Name, name, other.Addr)
		}
	}
	maps.DeleteFunc(m.reserved, func(_ string, r reservation) bool { return !now.Before(r.until) })
	if r, ok := m.reserved[candidate.Name]; ok && r.instance != candidate.Instance {
		return &NameError{Name: candidate.Name}
	}
	if len(m.reserved) < maxLost { // only authenticated agents ask, but the map needs a bound all the same
		m.reserved[candidate.Name] = reservation{candidate.Instance, now.Add(reserved)}
	}
	return nil
}

// rival receives announcements under our own name. If one may be another agent's, it is queued for
// judgeRival. rival is called under memberlist's lock.
func (m *Member) rival(other Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case other.Addr == m.self.Addr:
		// We have its port, so it is this agent, or an earlier process at this port.
	case other.Instance == m.self.Instance && other.Boot < m.self.Boot:
		// An earlier start of this agent.
	default:
		select {
		case m.rivals <- other:
		default: // gossip will repeat it
		}
	}
}

// judgeRival finds out whether a rival lives, because gossip may be old. A living rival refuses our
// name.
func (m *Member) judgeRival(other Agent) {
	if err := m.ask(other.Addr); !errors.Is(err, ErrRefused) {
		return
	}
	m.mu.Lock()
	self := m.self
	m.mu.Unlock()
	if stops(self, other) {
		m.fail(&ConflictError{self, other})
	}
}
