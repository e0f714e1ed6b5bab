package assignment

import (
	"math"

	"github.com/orbweaver/orbweaver/internal/store/fields"
)

func (r *Roster) appendTo(b []byte) []byte {
	c := fields.Write(b)
	c.Flags(&r.Ended)
	for _, ms := range [][]Member{r.Members, r.Lost} {
		n := len(ms)
		fields.Uint(c, &n)
		for i := range ms {
			ms[i].fields(c)
		}
	}
	return c.Written()
}

// AppendTo appends m's encoding to b.
func (m *Member) AppendTo(b []byte) []byte {
	c := fields.Write(b)
	m.fields(c)
	return c.Written()
}

func (m *Member) fields(c *fields.Codec) {
	short(c, &m.Name)
	c.Fixed(m.Instance[:])
	fields.Uint(c, &m.Boot)
	capacity := math.Float64bits(m.Capacity)
	if fields.Fixed64(c, &capacity); c.Reads() {
		m.Capacity = math.Float64frombits(capacity)
	}
	short(c, &m.Addr)
	fields.Byte(c, &m.State)
}

// short is a text after its length, one byte.
func short(c *fields.Codec, s *string) {
	n := byte(len(*s))
	if fields.Byte(c, &n); c.Reads() {
		*s = string(c.Take(int(n)))
	} else {
		c.Fixed([]byte(*s))
	}
}

func decodeRoster(text []byte, term uint64) (*Roster, error) {
	c := fields.Read(text)
	out := &Roster{Term: term}
	c.Flags(&out.Ended)
	for _, list := range []*[]Member{&out.Members, &out.Lost} {
		n := 0
		fields.Uint(c, &n)
		if c.Check(n >= 0 && n <= MaxMembers); !c.Ok() {
			return nil, malformed("the head of a roster, or more than %d members", MaxMembers)
		}
		for range n {
			var m Member
			if m.fields(c); !c.Ok() {
				return nil, malformed("a member that is cut short")
			}
			if err := m.Check(); err != nil {
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
			*list = append(*list, m)
		}
	}
	if !c.Whole() {
		return nil, malformed("%d bytes after a roster", c.Left())
	}
	return out, nil
}
