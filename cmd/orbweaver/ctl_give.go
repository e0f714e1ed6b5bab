package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// A Giver is a command of ctl that gives orders of a verb, or takes them back. The commands differ in their arguments.
type Giver struct {
	verb     *verbs.Verb
	off      bool
	JSONFlag `embed:""`
	WhyFlag  `embed:""`
}

// giver returns a Giver of a verb for a command that is not made from the table.
func giver(verb string, off, json bool, why WhyFlag) Giver {
	v, err := verbs.Of(verb)
	if err != nil {
		panic(err)
	}
	return Giver{v, off, JSONFlag{json}, why}
}

type (
	// giveAll is about the whole crawl.
	giveAll struct {
		Giver `embed:""`
	}
	// giveAbout gives an order about each of its arguments.
	giveAbout struct {
		About []string `arg:"" sep:"none"`
		Giver `embed:""`
	}
	// giveWords has a value, perhaps with a subject before it.
	giveWords struct {
		Words []string `arg:"" sep:"none"`
		Giver `embed:""`
	}
	// givePattern is about a pattern of URLs.
	givePattern struct {
		Pattern  string `arg:""`
		Preview  bool   `help:"Only print how many links that wait would be excluded."`
		Examples int32  `help:"With --preview: print N examples of each agent, at most 100." default:"5" placeholder:"N"`
		Giver    `embed:""`
	}
)

// verbCommands returns the commands of all verbs, those that take orders back included.
func verbCommands() kong.Plugins {
	var fields []reflect.StructField
	var values []any
	add := func(name, brief string, g Giver) {
		var command any = giveAll{g}
		switch {
		case g.verb.Preview:
			command = givePattern{Giver: g}
		case g.verb.Valued:
			command = giveWords{Giver: g}
		case g.verb.Words != "":
			command = giveAbout{Giver: g}
		}
		tag := reflect.StructTag(`cmd:"" name:"` + name + `" help:` + strconv.Quote(brief))
		fields = append(fields, reflect.StructField{Name: "V_" + strings.ReplaceAll(name, "-", "_"),
			Type: reflect.TypeOf(command), Tag: tag})
		values = append(values, command)
	}
	for _, v := range verbs.All {
		if v.Brief == "" {
			continue
		}
		add(v.Name, v.Brief, Giver{verb: v})
		if v.Undo != "" {
			add(v.Undo, v.UndoBrief, Giver{verb: v, off: true})
		}
	}
	commands := reflect.New(reflect.StructOf(fields))
	for i, v := range values {
		commands.Elem().Field(i).Set(reflect.ValueOf(v))
	}
	return kong.Plugins{commands.Interface()}
}

// verbArguments names the arguments of the commands of verbs, and describes them.
var verbArguments = kong.PostBuild(func(k *kong.Kong) error {
	return kong.Visit(k.Model.Node, func(n kong.Visitable, next kong.Next) error {
		if node, ok := n.(*kong.Node); ok && len(node.Positional) == 1 {
			if g, ok := node.Target.Addr().Interface().(interface{ of() *verbs.Verb }); ok {
				node.Positional[0].Name, node.Positional[0].Help = g.of().Words, g.of().About
			}
		}
		return next(nil)
	})
})

func (g Giver) of() *verbs.Verb { return g.verb }

// Help explains the verb.
func (g Giver) Help() string {
	if g.off {
		return ""
	}
	return g.verb.Help
}

// Run gives the order.
func (g giveAll) Run(c *commands, out io.Writer) error { return g.give(c, out, "", "") }

// Run gives the orders.
func (g giveAbout) Run(c *commands, out io.Writer) error {
	var list []verbs.Order
	for _, about := range g.About {
		order, err := g.verb.Order(about, "", g.off)
		if err != nil {
			return bad("%v", err)
		}
		list = append(list, order)
	}
	return g.giveAll(c, out, list)
}

// Run gives the order.
func (g giveWords) Run(c *commands, out io.Writer) error {
	about, value := g.verb.Split(g.Words)
	return g.give(c, out, about, value)
}

// Run gives the order, or counts the links.
func (g givePattern) Run(c *commands, out io.Writer) error {
	if g.Preview {
		if _, err := g.verb.Order(g.Pattern, "", false); err != nil {
			return bad("%v", err)
		}
		return c.Ctl.call(func(ctx context.Context, o operator) error { return g.preview(ctx, o, out) })
	}
	return g.give(c, out, g.Pattern, "")
}

// give gives an order, or takes it back, and prints what has become of it.
func (g Giver) give(c *commands, out io.Writer, about, value string) error {
	order, err := g.verb.Order(about, value, g.off)
	if err != nil {
		return bad("%v", err)
	}
	return g.giveAll(c, out, []verbs.Order{order})
}

// giveAll gives all of some orders, or none.
func (g Giver) giveAll(c *commands, out io.Writer, list []verbs.Order) error {
	q := &pb.GiveRequest{Why: g.Why}
	distinct := map[verbs.Order]bool{}
	for i, order := range list {
		distinct[order] = true
		to := q
		if i > 0 {
			to = new(pb.GiveRequest)
			q.Also = append(q.Also, to)
		}
		to.Verb, to.About, to.Value, to.Off = order.Verb, order.About, order.Value, order.Off
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		res, err := o.Give(ctx, q)
		switch {
		case err != nil:
			return err
		case len(distinct) > 1 && len(res.Also) == 0:
			return &exitError{exitOther, "the agent that answers has an older version, and gave the first order " +
				"alone; give the others one by one"}
		case g.JSON:
			err = writeMessage(out, res)
		default:
			err = g.print(out, list, res, dirFlag(c.Ctl.Dir))
		}
		return cmp.Or(err, ignorant(res.Answers, "it"))
	})
}

// print prints the agents' answers about orders: one by one if there is one order about one host, else their text, or
// the first order if they have none, and who obeys. dir is the flag that chooses the crawl.
func (g Giver) print(out io.Writer, list []verbs.Order, res *pb.GiveResponse, dir string) error {
	given := slices.DeleteFunc(slices.Clone(res.Answers), func(a *pb.Answer) bool { return a.Error != "" })
	switch ofHost := len(list) == 1 && g.verb.OneHost(list[0].About); {
	case ofHost && len(given) == 0: // the agents that could answer for the host are silent
		return nil
	case ofHost:
		return cmp.Or(printAnswers(out, given), printWaits(out, res.Answers))
	}
	text := g.verb.Describe(list[0], nil)
	if i := slices.IndexFunc(given, func(a *pb.Answer) bool { return a.Text != "" }); i >= 0 {
		text = given[i].Text // it knows the other orders
	}
	name, obeys := heard(given, "obeys", "obey")
	switch id := res.GetOrder().GetId(); {
	case g.off:
	case g.verb.Undo != "" && g.verb.Words == "":
		obeys += fmt.Sprintf(" until \"orbweaver ctl%s %s\"", dir, g.verb.Undo)
	case id != "":
		obeys += " order " + readout.Cell(id)
		for _, o := range res.Also {
			obeys += ", " + readout.Cell(o.Id)
		}
	}
	_, err := fmt.Fprintf(out, "%s; %s %s\n", readout.Line(text), name, obeys)
	return cmp.Or(err, printWaits(out, res.Answers))
}

// preview prints how many links the order would set aside.
func (g givePattern) preview(ctx context.Context, o operator, out io.Writer) error {
	q := &pb.ExcludePreviewRequest{Pattern: g.Pattern, Examples: g.Examples}
	for {
		r, err := o.ExcludePreview(ctx, q)
		if err != nil {
			return err
		}
		if q.Token = r.Token; q.Token != "" {
			continue
		}
		if g.JSON {
			return writeMessage(out, r)
		}
		return printPreview(out, r.Agents)
	}
}

// printPreview prints how many links of each agent would be excluded.
func printPreview(out io.Writer, agents []*pb.QueueCount) error {
	rows := [][]string{{"AGENT", "WAITING", "EXCLUDED"}}
	var examples, silent []string
	total := &pb.QueueCount{}
	for _, a := range agents {
		if a.Error != "" {
			silent = append(silent, fmt.Sprintf("agent %s answers: %s", readout.Cell(a.Agent), readout.Line(a.Error)))
			continue
		}
		total.Waiting, total.Matched = total.Waiting+a.Waiting, total.Matched+a.Matched
		rows = append(rows, []string{readout.Cell(a.Agent), humanize.Comma(a.Waiting), humanize.Comma(a.Matched)})
		for _, u := range a.Examples {
			examples = append(examples, "  "+readout.Line(u)+"\n")
		}
	}
	if len(rows) != 2 || len(silent) > 0 || agents[0].Agent != "" {
		rows = append(rows, []string{"total", humanize.Comma(total.Waiting), humanize.Comma(total.Matched)})
	} else {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	text := readout.Table(rows)
	if len(examples) > 0 {
		text += "for example:\n" + strings.Join(examples, "")
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if len(silent) > 0 {
		return &exitError{exitOther, strings.Join(silent, "\n")}
	}
	return nil
}
