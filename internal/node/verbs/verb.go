// Package verbs answers: which orders can an operator give, and what does each of them say?
//
// An order holds for all agents until it is taken back. A Verb is a kind of order, and has a file of its own. The call
// Give, the commands of ctl and their help are made from the table All, and so are the texts of the answers. Each file
// also reads its orders from those that stand; package standing puts them in force. An agent keeps and passes on orders
// whose verb it does not know, and does nothing else about them.
package verbs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
)

// A Verb is a kind of order that an operator gives with one call.
type Verb struct {
	// Name is that of the orders, and of the command of ctl.
	Name string
	// Undo is the command that takes an order back. Empty: take-back with the id of the order.
	Undo string
	// Done says what is true of the subject of an order that stands, such as "blocked".
	Done string
	// Brief and UndoBrief describe the commands in a list, and Help in the whole, with examples.
	Brief, UndoBrief, Help string
	// Words names what follows the command, such as "host" or "host-and-delay". Empty: nothing. About describes it.
	Words, About string
	// Note says before an order is given what it does, and Example has the words of one.
	Note, Example string
	// Preview: the call ExcludePreview counts the waiting links that an order would set aside.
	Preview bool
	// Domain: an order with a subject needs agents that count requests by domain.
	Domain bool
	// Valued: an order has a value.
	Valued bool

	rules rules
}

// rules are the functions of a verb. Errors are for people.
type rules interface {
	// split divides the words of a command into subject and value.
	split(words []string) (about, value string)
	// subject and plan return the canonical subject and value of an order.
	subject(text string) (about string, err error)
	plan(about, text string) (value string, err error)
	// check returns the error of an order beside those that stand.
	check(standing []orders.Order, about string) error
	// oneHost reports whether a subject is one host, whose waiting links the answers count.
	oneHost(about string) bool
	// describe says what an order does, or what it takes back.
	describe(o orders.Order, standing []orders.Order) string
}

// usual are the rules of most verbs: all words are the subject, there is no value, and any order is possible.
type usual struct{}

func (usual) split(words []string) (about, value string)    { return strings.Join(words, " "), "" }
func (usual) plan(string, string) (value string, err error) { return "", nil }
func (usual) check([]orders.Order, string) error            { return nil }
func (usual) oneHost(string) bool                           { return false }

// All are the verbs by name.
var All = []*Verb{&block, &delay, &exclude, &pause, &limit}

// Of returns the verb with a name. The error lists the names.
func Of(name string) (*Verb, error) {
	var names []string
	for _, v := range All {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return nil, fmt.Errorf("verb %.80q: give one of %s", name, strings.Join(names, ", "))
}

// Split divides the words of a command into the subject and the value of an order.
func (v *Verb) Split(words []string) (about, value string) {
	if len(words) == 0 {
		return "", ""
	}
	return v.rules.split(words)
}

// Order returns the order with a subject and a value as an operator gives them. off takes back the order with this
// subject, and needs no value. The error is for people.
func (v *Verb) Order(about, value string, off bool) (o orders.Order, err error) {
	o = orders.Order{Verb: v.Name, Off: off}
	if o.About, err = v.rules.subject(about); err != nil || off {
		return o, err
	}
	if !v.Valued && value != "" {
		return o, fmt.Errorf("%s has no value; leave out %.80q", v.Name, value)
	}
	o.Value, err = v.rules.plan(o.About, value)
	return o, err
}

// Check returns the error of an order beside those that stand, for people.
func (v *Verb) Check(standing []orders.Order, o orders.Order) error {
	switch {
	case o.Off && !IsStanding(standing, o.Verb, o.About):
		subject := o.About
		if subject == "" {
			subject = "the crawl"
		}
		return fmt.Errorf("%s is not %s; \"orbweaver ctl orders\" lists the orders that stand", subject, v.Done)
	case !o.Off:
		return v.rules.check(standing, o.About)
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
