// Package view answers: how do people read a Review?
//
//	Review -> Sections -> Text  aligned tables for a terminal
//	                   -> HTML  one file with charts, without script and without any request
//
// Both forms have the same sections and rows. All texts of a Review are foreign: a cell escapes control characters, and
// the HTML template escapes the rest. A URL becomes a link only if it is an absolute http or https URL. The page's
// Content-Security-Policy allows its one style sheet and nothing else.
package view
