package orbweaver

import (
	"errors"
	"os"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	models "github.com/orbweaver/orbweaver/internal/web/classify/builtin"
)

// FocusedOptions tune Focused.
type FocusedOptions struct {
	// Topics are the wanted categories of the model, in any case: some of them, but not all. They may be empty in a
	// Cluster with the Partition "topic": then each agent wants the categories that it has at the time.
	Topics []string
	// Model is a file of "orbweaver classify train", or one of the models in this package: "topics", for pages in
	// English, or "languages". Empty means "topics". With the Partition "topic" it also says which agent keeps a page.
	Model string
}

// Focused returns the strategy that takes every link, and fetches those first that probably lead to pages of the
// wanted topics. Evidence is the topic of the page with the link, the words of the anchor text and of the URL, and the
// topics of the host's pages so far. Do not wrap this Strategy: a Strategy that calls its Follow is only
// breadth-first.
func Focused(o FocusedOptions) Strategy {
	return &builtin{FollowFunc: func(*Page, Link) Choice { return Take }, focused: &o}
}

// classifier reads the model.
func (o *FocusedOptions) classifier() (c *classify.Classifier, err error) {
	switch o.Model {
	case "", "topics":
		return classify.New(models.Topics(), models.Languages())
	case "languages":
		return classify.New(models.Languages(), nil)
	}
	b, err := os.ReadFile(o.Model)
	if err != nil {
		return nil, badOption("FocusedOptions.Model: %w; give topics, languages, or a file of \"classify train\"", err)
	}
	m, _, err := classify.Parse(b)
	if err == nil {
		c, err = classify.New(m, models.Languages())
	}
	if err != nil {
		return nil, badOption("FocusedOptions.Model %s: %w", o.Model, err)
	}
	return c, nil
}

// into sets the strategy of cfg, and the model that divides the pages.
func (o *FocusedOptions) into(cfg *node.Config) error {
	model, err := o.classifier()
	if err != nil {
		return err
	}
	focused := strategy.FocusedConfig{Classifier: model, Topics: o.Topics}
	byTopic := cfg.Cluster != nil && cfg.Cluster.Partition == membership.PartitionTopic
	if byTopic {
		cfg.Cluster.Classifier = model
		focused.Pages = strategy.Unmet{}
	}
	switch _, err := strategy.OpenFocused(focused); {
	case errors.Is(err, strategy.ErrNoChances):
		return badOption("FocusedOptions.Model %s: %w; train one of another kind", o.Model, err)
	case errors.Is(err, strategy.ErrTopic) && len(o.Topics) == 0:
		return badOption("FocusedOptions.Topics is empty: name the topics that you want; only agents with " +
			"Options.Cluster.Partition \"topic\" have topics of their own")
	case err != nil:
		return badOption("FocusedOptions.Topics: %w", err)
	}
	cfg.Strategy = func(at strategy.Place) (visit.Strategy, error) {
		focused.Pages = at.Pages
		return strategy.OpenFocused(focused)
	}
	return nil
}
