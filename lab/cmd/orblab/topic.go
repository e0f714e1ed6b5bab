package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// TopicCmd implements "orblab topic".
type TopicCmd struct {
	flags
	Texts string `default:"../shared/data/topics" placeholder:"DIR" help:"${topic_texts}"`
}

// Help explains the result.
func (TopicCmd) Help() string {
	return `The experiment trains the classifiers of the paper on X4 and ours, and measures how
often they are right, how often a link leads to an article of the same topic, and
how fast they are. It also measures how well the program tells languages.

  orblab topic --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *TopicCmd) Run(out io.Writer) error {
	again := "orblab topic"
	add := flagsOf(&again)
	add(c.Quick, "%s", "--quick")
	add(c.Seed != 1, "--seed %d", c.Seed)
	return c.measure(out, false, &lab.Topic{Texts: c.Texts, Again: again})
}
