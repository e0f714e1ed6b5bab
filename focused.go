package orbweaver

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
	return &builtin{FollowFunc: takeAll, name: "focused", focused: o}
}
