package assignment

import (
	"encoding/binary"
	"math"
)

func (r *Roster) appendTo(b []byte) []byte {
	ended := byte(0)
	if r.Ended {
		ended = 1
	}
	b = append(b, ended)
	for _, ms := range [][]Member{r.Members, r.Lost} {
		b = binary.AppendUvarint(b, uint64(len(ms)))
		for i := range ms {
			b = ms[i].AppendTo(b)
		}
	}
	return b
}

// AppendTo appends m's encoding to b.
func (m *Member) AppendTo(b []byte) []byte {
	b = append(append(b, byte(len(m.Name))), m.Name...)
	b = append(b, m.Instance[:]...)
	b = binary.AppendUvarint(b, m.Boot)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(m.Capacity))
	b = append(append(b, byte(len(m.Addr))), m.Addr...)
	return append(b, byte(m.State))
}

// DecodeMember reads the member at the beginning of src and returns what follows it. It accepts any bytes: the
// error is an ErrMalformed.
func DecodeMember(src []byte) (m Member, rest []byte, err error) {
	r := reader{b: src}
	m.Name = string(r.bytes(int(r.byte())))
	copy(m.Instance[:], r.bytes(len(m.Instance)))
	m.Boot = r.uvarint(math.MaxUint64)
	if c := r.bytes(8); c != nil {
		m.Capacity = math.Float64frombits(binary.BigEndian.Uint64(c))
	}
	m.Addr = string(r.bytes(int(r.byte())))
	m.State = State(r.byte())
	if r.failed {
		return Member{}, nil, malformed("a member that is cut short")
	}
	if err := m.Check(); err != nil {
		return Member{}, nil, err
	}
	return m, r.b, nil
}

func decodeRoster(text []byte, term uint64) (*Roster, error) {
	r := reader{b: text}
	out := &Roster{Term: term}
	ended := r.byte()
	out.Ended = ended == 1
	for _, list := range []*[]Member{&out.Members, &out.Lost} {
		n := r.uvarint(MaxMembers)
		if r.failed || ended > 1 {
			return nil, malformed("the head of a roster, or more than %d members", MaxMembers)
		}
		for range n {
			m, rest, err := DecodeMember(r.b)
			if err != nil {
				return nil, err
			}
			if i := len(*list); i > 0 {
				last := (*list)[i-1]
				if last.Compare(m) >= 0 || list == &out.Members && last.Name == m.Name {
					return nil, malformed("member %s after %s", m.Name, last.Name)
				}
			}
			if list == &out.Members && m.State != Up && m.State != Leaving {
				return nil, malformed("member %s has the state %d", m.Name, m.State)
			}
			*list, r.b = append(*list, m), rest
		}
	}
	if len(r.b) > 0 {
		return nil, malformed("%d bytes after a roster", len(r.b))
	}
	return out, nil
}

// A reader takes values off the front of b. After one that b does not have, it has failed, and returns zeros.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) bytes(n int) []byte {
	if r.failed || n > len(r.b) {
		r.failed = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// uvarint reads a number in its shortest form.
func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if r.failed || n <= 0 || v > most || n > 1 && r.b[n-1] == 0 {
		r.failed = true
		return 0
	}
	r.b = r.b[n:]
	return v
}
