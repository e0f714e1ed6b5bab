package weburl

// SURT is the sort-friendly form, as CDXJ wants it.
func (u URL) SURT() string { return u.s }
