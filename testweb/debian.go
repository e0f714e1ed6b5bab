package testweb

// DebianDocs are the folders of Debian's documentation packages (see docs.sh)
// under the hosts where these pages live on the web: some 9,000 pages by many
// hands in thirty languages, with mirrors, broken links and redirects.
func DebianDocs() []Folder {
	const doc = "/usr/share/doc/"
	return []Folder{
		{Host: "docs.python.org", Dir: doc + "python3.11-doc/html", Scheme: "https"},
		{Host: "httpd.apache.org", Prefix: "/docs/2.4", Dir: doc + "apache2-doc/manual", Scheme: "https"},
		{Host: "www.postgresql.org", Dir: doc + "postgresql-doc-15/html", Scheme: "https"},
		{Host: "sqlite.org", Dir: doc + "sqlite3", Scheme: "https"},
		// The package has a folder for each language and nothing above them;
		// "stable" is the English one under a second name.
		{Host: "debian-handbook.info", Prefix: "/browse", Dir: doc + "debian-handbook/html", Listing: true, Scheme: "https"},
		{Host: "debian-handbook.info", Prefix: "/browse/stable", Dir: doc + "debian-handbook/html/en-US", Scheme: "https", Home: NoHome},
		{Host: "nodejs.org", Prefix: "/api", Dir: doc + "nodejs/api", Scheme: "https"},
		{Host: "nodejs.org", Prefix: "/docs/latest-v18.x/api", Dir: doc + "nodejs/api", Scheme: "https", Home: NoHome},
		{Host: "docs.djangoproject.com", Dir: doc + "python-django-doc/html", Scheme: "https"},
		{Host: "docs.sqlalchemy.org", Dir: doc + "python-sqlalchemy-doc/html", Scheme: "https"},
	}
}

// DebianSeeds are the home pages of DebianDocs, one a host.
func DebianSeeds() []string {
	var seeds []string
	for _, f := range DebianDocs() {
		if u := f.Seed(); u != "" {
			seeds = append(seeds, u)
		}
	}
	return seeds
}
