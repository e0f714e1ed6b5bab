// Package classify answers: which topic is a page about?
//
//	page -> text (parse.AppendProse) -> terms with counts -> a linear model -> scores by category
//	     -> main text (parse.MainText) -> runs of characters -> the language
//
// X4, a topic-partitioned crawler (paper), assigns each page to the agent of its category. Its classifier looks at the
// page's text alone and never learns after its training, so that all agents give a page the same category (section 5).
// So does this package: a Model is read-only, and its Digest says whether two agents have the same one.
//
// The paper compares three learners, which are here with the paper's terms: Bayes, Lewis and Rocchio. Logistic is ours.
// Train makes a Model of any of them. Evaluate compares a model with texts of known categories.
//
// A Model is safe for concurrent use. A Document belongs to one goroutine, which reads one page after the other into
// it.
package classify
