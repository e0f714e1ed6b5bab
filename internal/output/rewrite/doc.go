// Package rewrite answers: what does an archived page look like if its references lead elsewhere?
//
//	body -> encoding and base (package parse) -> tokens -> each reference: Map -> the same bytes, or a new reference
//
// HTML, XHTML, SVG and CSS are rewritten. In feeds and in other XML, references in attributes and in
// the texts of elements are. Other bodies stay as they are. All bytes outside of the changed
// attributes, texts, style rules and removed attributes stay the same, in the document's own
// encoding: a new reference is in ASCII. A body whose encoding does not permit that (UTF-16,
// ISO-2022-JP) is converted to UTF-8, but a feed or other XML in it stays as it is.
//
// Rewriting also removes what would keep the rewritten page from working or would act before a
// reader does: integrity and crossorigin attributes, ping, policies and cookies in meta elements,
// and hints to connect to other hosts. It is no protection against a hostile page: scripts run
// unchanged. The caller confines the page.
//
// Rewriting never fails. It is linear in the size of the body and holds the body in memory.
package rewrite
