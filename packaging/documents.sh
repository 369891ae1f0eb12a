# Writes the manual pages and the completions of both programs, of the folder $programs, to the
# folder $made. Read by the scripts that build packages.
rm -rf "$made"
mkdir -p "$made/completions"
"$programs/changelog-server" man --out "$made/man"
"$programs/chlog" man --out "$made/man"
"$programs/chlog" completions bash >"$made/completions/chlog.bash"
"$programs/chlog" completions zsh >"$made/completions/_chlog"
"$programs/chlog" completions fish >"$made/completions/chlog.fish"
