package coordinator

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// The kinds of commands, the first byte of each.
const (
	cmdNothing = 'N' // shows that all earlier commands were applied
	cmdAssign  = 'A' // a head in JSON, hosts
	cmdRoster  = 'R' // uvarint term of the roster before, uvarint last number or 0, an entry with the next roster
	cmdClaim   = 'C' // a Claim in JSON
	cmdRead    = 'K' // map from agents to terms that they have read, in JSON
)

// Results of Apply, beside nil.
var (
	// errStale: the command was made for another state of the stream.
	errStale = errors.New("the stream has changed")
	// errNobody: no agent is up, so that hosts cannot be assigned.
	errNobody = errors.New("no agent is up")
	// errEnded: the crawl has ended.
	errEnded = errors.New("the crawl has ended")
	// errCommand: the command is malformed, for example because another version made it.
	errCommand = errors.New("malformed command")
)

// An assign is the head of an assign command.
type assign struct {
	// Loads are those of agents, for least-loaded. Without Loads the agents take turns.
	Loads map[string]uint64 `json:"loads,omitempty"`
	// Unit is what one host adds to a load.
	Unit uint64 `json:"unit,omitempty"`
	// Away names agents that the leader has not heard of lately. They get no hosts if other agents are up.
	Away []string `json:"away,omitempty"`
}

// A Claim is the crawl that the coordinators serve.
type Claim struct {
	Crawl [16]byte `json:"crawl"`
	// Group is a random name of the log that has the claim. Zero: a version without names has made it.
	Group [16]byte `json:"group,omitzero"`
	// Settings must be equal for all agents.
	Settings map[string]string `json:"settings"`
}

// encode returns a command with a head in JSON.
func encode(kind byte, head any) []byte {
	b, err := json.Marshal(head)
	if err != nil {
		panic(err) // structs of strings and numbers
	}
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(b))), b...)
}

// head reads what encode wrote and returns what follows it.
func head(b []byte, into any) (rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, fmt.Errorf("%w: a head of %d bytes", errCommand, size)
	}
	if err := json.Unmarshal(b[n:n+int(size)], into); err != nil {
		return nil, fmt.Errorf("%w: %w", errCommand, err)
	}
	return b[n+int(size):], nil
}

// encodeAssign returns the command that assigns hosts: distinct, canonical, within the limits of an entry.
func encodeAssign(a assign, hosts []string) []byte {
	return append(encode(cmdAssign, a), strings.Join(hosts, "\n")...)
}

func decodeAssign(b []byte) (a assign, hosts []string, err error) {
	rest, err := head(b, &a)
	if err != nil {
		return a, nil, err
	}
	hosts = strings.Split(string(rest), "\n")
	if len(hosts) > assignment.MaxHosts || len(rest)+1 > assignment.MaxHostBytes {
		return a, nil, fmt.Errorf("%w: %d hosts in %d bytes", errCommand, len(hosts), len(rest))
	}
	for _, h := range hosts { // in an entry, a malformed host would stop all agents
		if err := assignment.CheckHost(h); err != nil {
			return a, nil, fmt.Errorf("%w: %w", errCommand, err)
		}
	}
	return a, hosts, nil
}

// encodeRoster returns the command that replaces the roster of a term. Another roster makes it stale. If last is not
// zero, so does another last entry.
func encodeRoster(term, last uint64, next *assignment.Roster) []byte {
	e := assignment.Entry{Number: 1, Roster: next}
	return e.AppendTo(binary.AppendUvarint(binary.AppendUvarint([]byte{cmdRoster}, term), last))
}

func decodeRoster(b []byte) (term, last uint64, next *assignment.Roster, err error) {
	term, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, nil, fmt.Errorf("%w: no term", errCommand)
	}
	b = b[n:]
	if last, n = binary.Uvarint(b); n <= 0 {
		return 0, 0, nil, fmt.Errorf("%w: no last entry", errCommand)
	}
	e, rest, err := assignment.Decode(b[n:])
	switch {
	case err != nil:
		return 0, 0, nil, fmt.Errorf("%w: %w", errCommand, err)
	case e.Roster == nil || len(rest) > 0:
		return 0, 0, nil, fmt.Errorf("%w: no roster", errCommand)
	}
	return term, last, e.Roster, nil
}
