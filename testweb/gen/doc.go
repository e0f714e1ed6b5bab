// Package gen answers: what would a web of any size, good or bad, have served?
//
// It makes hosts and pages up from a seed by hashing; nothing is stored for
// any of them.
package gen
