package sites

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
)

// A table has the assignments of all hosts, on disk. One goroutine owns it.
type table struct {
	fs      disk.FS
	dir     string
	memory  int64
	drum    *drum.Store
	self    Self
	answers []answer // that the Sites has still to deliver

	// What the mark has:
	number uint64 // of the last entry
	spell  spell
	names  []string // of agents, by index
	index  map[string]int
	roster *assignment.Roster // the last one; nil: none
	group  [16]byte           // names the log of the entries; zero: it is not known

	syncing *drum.Syncing
	mark    []byte // of the sync under way
	held    int64  // Stats.EverHeld at the last sync
	synced  chan error
	rebuilt int64 // how often it was damaged, and read again
}

var errMark = errors.New("the mark of the table of hosts is malformed")

// openTable opens the table in dir. If it is damaged, the table begins anew.
func openTable(fs disk.FS, dir string, memory int64, self Self) (*table, error) {
	t := &table{fs: fs, dir: dir, memory: memory, self: self, index: map[string]int{},
		synced: make(chan error, 1)}
	err := t.open()
	if err == nil && len(t.drum.Mark()) > 0 {
		err = t.readMark(t.drum.Mark())
	}
	if isDamage(err) {
		err = t.anew()
	}
	if err != nil {
		t.close(false)
		return nil, fmt.Errorf("open the table of hosts: %w", err)
	}
	return t, nil
}

func isDamage(err error) bool {
	_, damage := errors.AsType[*drum.Damage](err)
	return damage || errors.Is(err, drum.ErrManifest) || errors.Is(err, errMark)
}

func (t *table) open() (err error) {
	t.drum, err = drum.Open(t.fs, t.dir, drum.Config{MemoryBytes: t.memory, Values: true, Known: true, Journal: true},
		func(items []drum.Item) error {
			for _, it := range items {
				t.answer(it)
			}
			return nil
		})
	if err == nil && len(t.drum.Damaged()) > 0 {
		d := t.drum.Damaged()[0]
		return &d
	}
	return err
}

// answer notes an answer of the store.
func (t *table) answer(it drum.Item) {
	if len(it.Aux) < auxHead {
		return // not a question of ours
	}
	a := answer{binary.BigEndian.Uint64(it.Aux), int(binary.BigEndian.Uint32(it.Aux[8:])), string(it.Aux[auxHead:]), 0}
	if it.Known {
		a.place = place(it.Value)
	}
	t.answers = append(t.answers, a)
}

// anew deletes the table. What the coordinators said is read again, from the first entry on. The agents and the
// last roster stay: they are not older than what is read.
func (t *table) anew() error {
	t.rebuilt++
	t.close(false) // an error does not matter: it is deleted
	if err := t.fs.RemoveAll(t.dir); err != nil {
		return err
	}
	t.number = 0
	return t.open()
}

// forget is anew for a log that is lost: the agents and rosters of another one count.
func (t *table) forget() error {
	t.spell, t.names, t.index, t.roster, t.group = spell{}, nil, map[string]int{}, nil, [16]byte{}
	return t.anew()
}

// mend handles an error of the store. A damaged table begins anew.
func (t *table) mend(err error) error {
	if isDamage(err) {
		err = t.anew()
	}
	if err != nil {
		return fmt.Errorf("table of hosts: %w", err)
	}
	return nil
}

// agent returns the index of an agent's name, which may be new.
func (t *table) agent(name string) (int, error) {
	i, ok := t.index[name]
	if !ok {
		if i = len(t.names); i == maxAgents {
			return 0, fmt.Errorf("table of hosts: more than %d agents", maxAgents)
		}
		t.names = append(t.names, name)
		t.index[name] = i
	}
	return i, nil
}

// enter notes a roster, which is later than the last one.
func (t *table) enter(r *assignment.Roster) error {
	if slices.ContainsFunc(r.Members, t.isStranger) {
		t.spell.came = r.Term
	}
	t.roster, t.spell = r, t.spell.next(r, t.self)
	for _, m := range r.Members {
		if _, err := t.agent(m.Name); err != nil {
			return err
		}
	}
	return nil
}

// isStranger reports whether a member of the next roster has started before, and the stream does not have it yet.
func (t *table) isStranger(m assignment.Member) bool {
	if m.Boot <= 1 {
		return false
	}
	if _, known := t.index[m.Name]; !known || t.roster == nil {
		return true
	}
	named := func(o assignment.Member) bool { return o.Name == m.Name }
	is := func(o assignment.Member) bool { return o.Name == m.Name && o.Instance == m.Instance }
	was := slices.Concat(t.roster.Members, t.roster.Lost)
	return slices.ContainsFunc(was, named) && !slices.ContainsFunc(was, is)
}

// add adds the hosts of one entry.
func (t *table) add(items []drum.Item) error { return t.drum.Update(items) }

const markVersion = 2

func (t *table) appendMark(b []byte) []byte {
	c := fields.Write(b)
	head(c, &t.group, &t.number, &t.spell, &t.names)
	if t.roster == nil {
		return c.Written()
	}
	e := assignment.Entry{Number: t.roster.Term, Roster: t.roster}
	return e.AppendTo(c.Written())
}

// head names the fields of a mark before its roster.
func head(c *fields.Codec, group *[16]byte, number *uint64, sp *spell, names *[]string) {
	c.Tag(markVersion)
	c.Fixed(group[:])
	fields.Uint(c, number)
	fields.Uint(c, &sp.first)
	fields.Uint(c, &sp.since)
	fields.Uint(c, &sp.came)
	fields.List(c, names, maxAgents, 1, func(name *string) { fields.Text(c, name, math.MaxInt) })
}

func (t *table) readMark(b []byte) error {
	var group [16]byte
	var number uint64
	var sp spell
	var names []string
	c := fields.Read(b)
	if head(c, &group, &number, &sp, &names); !c.Ok() {
		return errMark
	}
	var roster *assignment.Roster
	if c.Left() > 0 {
		e, rest, err := assignment.Decode(c.Rest())
		if err != nil || len(rest) > 0 || e.Roster == nil {
			return errMark
		}
		roster = e.Roster
	}
	for _, name := range names {
		if _, err := t.agent(name); err != nil {
			return err
		}
	}
	t.group, t.number, t.spell, t.roster = group, number, sp, roster
	return nil
}

// wantsSync reports whether a sync should begin: the table in RAM is full, or, at a tick, files of answered
// questions may be deleted.
func (t *table) wantsSync(tick bool) bool {
	return t.syncing == nil && (t.drum.WantsSync() || tick && t.drum.Stats().EverHeld != t.held)
}

// beginSync begins to make everything so far durable. The coordinators' log is the durable copy of what the
// table has, so only the store's own files need a sync.
func (t *table) beginSync() error {
	t.held = t.drum.Stats().EverHeld
	s, err := t.drum.BeginSync()
	if err != nil {
		return err
	}
	t.syncing, t.mark = s, t.appendMark(nil)
	go func() { t.synced <- s.Run() }()
	return nil
}

func (t *table) endSync(err error) error {
	s := t.syncing
	t.syncing = nil
	return t.drum.EndSync(s, err, t.mark)
}

// close closes the table. If save is set, it first writes everything, so that the next run need not read it
// again from the coordinators.
func (t *table) close(save bool) (err error) {
	if t.drum == nil {
		return nil
	}
	if t.syncing != nil {
		err = t.endSync(<-t.synced)
	}
	if save && err == nil && t.number > 0 {
		err = t.drum.Save(t.appendMark(nil))
	}
	err = cmp.Or(err, t.drum.Close())
	t.drum = nil
	return err
}
