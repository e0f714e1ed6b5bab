// Package link answers: how was a URL found, and by which key do we know it?
//
// A [Link] is a URL and how it was found. It has one encoding everywhere: in the journal, in queues and between agents.
// Versions to come can add fields to it in its extension ([Link.Ext], see [Link.AppendTo]). It costs nothing while it
// is empty. This version bounds it, keeps it and passes it on.
//
// A [Key] is the fingerprint of a URL or of a link. The keys of a host form one range. A [Batch] resolves the
// references of a page into one piece of memory, with their keys.
//
// All types except Batch are values and safe for concurrent use. A Batch belongs to one goroutine.
package link
