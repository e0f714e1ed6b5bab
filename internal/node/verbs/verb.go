// Package verbs answers: which orders can an operator give, and what does each of them say and change?
//
// An order holds for all agents until it is taken back. A Verb is a kind of order, and has a file of its own: what it
// says, how it is read, and how it is put in force. The calls Give and Verbs, the commands of ctl with their help, the
// forms of the console and the texts of the answers are made from the table All. A Force puts the orders that stand in
// force at an agent. An agent keeps and passes on orders whose verb it does not know, and does nothing else about them.
package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A Verb is a kind of order that an operator gives with one call.
type Verb struct {
	// Name is that of the orders, and of the command of ctl.
	Name string
	// Role may give the orders.
	Role Role
	// Call is the call that gives the orders, such as AddSeeds. Empty: Give. Give takes them back in both cases.
	Call string
	// Undo is the command that takes an order back. Empty: take-back with the id of the order.
	Undo string
	// Done says what is true of the subject of an order that stands, such as "blocked".
	Done string
	// Brief and UndoBrief describe the commands in a list, and Help in the whole, with examples. Without a Brief, ctl
	// has a command that is not made from the table.
	Brief, UndoBrief, Help string
	// Words names what follows the command, such as "host" or "host-and-delay". Empty: nothing. About describes it.
	Words, About string
	// Note says before an order is given what it does, and Example has the words of one.
	Note, Example string
	// Preview: the call ExcludePreview counts the waiting links that an order would set aside.
	Preview bool
	// Valued: an order has a value.
	Valued bool

	rules rules
}

// An Order is an order of a verb, as all agents hold it.
type Order = orders.Order

// A Role is what a caller of the API is, as the call /session names it.
type Role string

// Operator is the role of callers with the operator's token. The API serves Give to no others.
const Operator Role = "operator"

// An Agent is the agent that is told of an order.
type Agent interface {
	// CanRateDomain returns an error if the crawl cannot limit the requests to single domains.
	CanRateDomain() error
	// Scope tells the scope that is in force, without the orders.
	Scope() *pb.ScopeResponse
}

// rules are the functions of a verb. Errors are for people.
type rules interface {
	// split divides the words of a command into subject and value.
	split(words []string) (about, value string)
	// subject and plan return the canonical subject and value of an order.
	subject(text string) (about string, err error)
	plan(about, text string) (value string, err error)
	// check returns the error of a new order at an agent, beside those that stand.
	check(at Agent, standing []orders.Order, about string) error
	// oneHost reports whether a subject is one host, whose waiting links the answers count.
	oneHost(about string) bool
	// replaces returns the orders that stand and end with an order, besides that with the same verb and subject.
	replaces(o orders.Order, standing []orders.Order) []orders.Order
	// text says what an order is, in a list. describe says what it does, or what it takes back.
	text(o orders.Order) string
	describe(o orders.Order, standing []orders.Order) string
	// apply puts the orders of the verb in force, in place of those of the call before.
	apply(ctx context.Context, f *Force, standing []orders.Order) error
}

// usual are the rules of most verbs: all words are the subject, there is no value, any order is possible, it ends only
// the order with its verb and subject, and another verb puts the orders in force.
type usual struct{}

func (usual) split(words []string) (about, value string)                { return strings.Join(words, " "), "" }
func (usual) subject(text string) (about string, err error)             { return text, nil }
func (usual) plan(string, string) (value string, err error)             { return "", nil }
func (usual) check(Agent, []orders.Order, string) error                 { return nil }
func (usual) oneHost(string) bool                                       { return false }
func (usual) replaces(orders.Order, []orders.Order) []orders.Order      { return nil }
func (usual) apply(context.Context, *Force, []orders.Order) error       { return nil }
func (u usual) describe(o orders.Order, standing []orders.Order) string { return u.text(o) }

func (usual) text(o orders.Order) string {
	about := cmp.Or(o.About, "everything")
	return named(o, o.Value) + " " + about
}

// named returns the verb of an order, its value and, if it takes back another one, "off".
func named(o orders.Order, value string) string {
	name := strings.TrimSpace(o.Verb + " " + value)
	if o.Off {
		name += " off"
	}
	return name
}

// All are the verbs by name.
var All = []*Verb{&application, &applicationRule, &block, &delay, &exclude, &pageLimit, &pause, &limit, &scopeOrder,
	&seed}

// Of returns the verb with a name. The error lists the names.
func Of(name string) (*Verb, error) {
	var names []string
	for _, v := range All {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return nil, fmt.Errorf("the agent does not know the verb %.80q; it knows %s", name, strings.Join(names, ", "))
}

// rulesOf returns the rules of an order's verb; the usual ones if this version does not know it.
func rulesOf(o orders.Order) rules {
	if v, err := Of(o.Verb); err == nil {
		return v.rules
	}
	return usual{}
}

// Unknown reports whether this version does not know the verb of an order, which then has no effect here.
func Unknown(o orders.Order) bool {
	_, err := Of(o.Verb)
	return err != nil
}

// Text says what an order is, in a list, for people.
func Text(o orders.Order) string { return rulesOf(o).text(o) }

// Replaced returns the orders that take back what an order replaces or ends, besides the order with the same verb and
// subject. They are given together with it, for the same reason.
func Replaced(o orders.Order, standing []orders.Order) (off []orders.Order) {
	for _, s := range rulesOf(o).replaces(o, standing) {
		off = append(off, orders.Order{Verb: s.Verb, About: s.About, Why: o.Why, Off: true})
	}
	return off
}

// Split divides the words of a command into the subject and the value of an order.
func (v *Verb) Split(words []string) (about, value string) {
	if len(words) == 0 {
		return "", ""
	}
	return v.rules.split(words)
}

// Read is Split for words in one text. The text of a verb without values is the subject.
func (v *Verb) Read(text string) (about, value string) {
	if !v.Valued {
		return strings.TrimSpace(text), ""
	}
	return v.Split(strings.Fields(text))
}

// Order returns the order with a subject and a value as an operator gives them. off takes back the order with this
// subject, and needs no value. The error is for people.
func (v *Verb) Order(about, value string, off bool) (o orders.Order, err error) {
	o = orders.Order{Verb: v.Name, Off: off}
	if o.About, err = v.rules.subject(about); err != nil || off {
		return o, err
	}
	if v.Call != "" {
		return o, fmt.Errorf("orders of the verb %s are given with the call %s", v.Name, v.Call)
	}
	if !v.Valued && value != "" {
		return o, fmt.Errorf("%s has no value; leave out %.80q", v.Name, value)
	}
	o.Value, err = v.rules.plan(o.About, value)
	return o, err
}

// Check returns the error of an order at the agent that is told, beside those that stand, for people.
func (v *Verb) Check(at Agent, standing []orders.Order, o orders.Order) error {
	switch {
	case o.Off && !IsStanding(standing, o.Verb, o.About):
		subject := cmp.Or(o.About, "the crawl")
		return fmt.Errorf("%s is not %s; \"orbweaver ctl orders\" lists the orders that stand", subject, v.Done)
	case !o.Off:
		return v.rules.check(at, standing, o.About)
	}
	return nil
}

// OneHost reports whether an order is about one host, so that the agent of the host has most to say of it.
func (v *Verb) OneHost(about string) bool { return v.rules.oneHost(about) }

// Describe says what an order does, or what it takes back. standing has the orders that stand besides.
func (v *Verb) Describe(o orders.Order, standing []orders.Order) string {
	return v.rules.describe(o, standing)
}

// IsStanding reports whether an order of a verb stands, about exactly this.
func IsStanding(standing []orders.Order, verb, about string) bool {
	return slices.ContainsFunc(standing, func(o orders.Order) bool { return o.Verb == verb && o.About == about })
}

// sets describes an order that sets a value: first its subject, then what it sets.
func sets(o orders.Order, what string) string {
	text := what + " " + o.Value
	if o.Off {
		text = what + " taken back"
	}
	if o.About != "" {
		text = o.About + ": " + text
	}
	return text
}

// listed is how many items List prints.
const listed = 3

// List returns the first of some items as text, and the number of the others.
func List(items []string) string {
	if n := len(items) - listed; n > 0 {
		return strings.Join(items[:listed], "; ") + fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(items, "; ")
}
