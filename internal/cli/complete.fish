# fish completion of PROGRAM
function __PROGRAM_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	set -l program $words[1]
	set -e words[1]
	set -l lines (command $program __complete $words "$current" 2>/dev/null)
	set -l flag (string match -r -- '^--[^=]*=' "$current")
	set -l value (string replace -r -- '^--[^=]*=' '' "$current")
	set -l paths
	switch "$lines[1]"
		case files
			set paths (__fish_complete_path $value)
		case dirs
			set paths (__fish_complete_directories $value)
	end
	for path in $paths
		echo "$flag$path"
	end
	set -e lines[1]
	for line in $lines
		echo $line
	end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
