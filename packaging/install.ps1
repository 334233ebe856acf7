# Installs gdn on Windows without a compiler: downloads the archive, verifies its checksum, and unpacks it below a folder.
#
#   irm https://github.com/goondan/gdn/releases/latest/download/install.ps1 | iex
#
# Run it again for a newer version, or to repair an installation. Options stand in variables, since a script that is piped takes
# none: $env:GDN_INSTALL_DIR, $env:GDN_VERSION, $env:GDN_BASE_URL.
param(
    [string]$Prefix = $env:GDN_INSTALL_DIR,
    [string]$Version = $env:GDN_VERSION,
    [string]$BaseUrl = $env:GDN_BASE_URL
)

function Install-Gdn([string]$Prefix, [string]$Version, [string]$BaseUrl) {
    $ErrorActionPreference = 'Stop'
    $ProgressPreference = 'SilentlyContinue'
    if (-not $Prefix) { $Prefix = Join-Path $env:LOCALAPPDATA 'Programs\gdn' }
    if (-not $BaseUrl) { $BaseUrl = 'https://github.com/goondan/gdn/releases' }
    $BaseUrl = $BaseUrl.TrimEnd('/')
    $Version = $Version -replace '^v', ''
    if ($BaseUrl -notmatch '^(https://|http://(localhost|127\.0\.0\.1)[:/])[A-Za-z0-9:/._~%@+-]*$') {
        throw "The address '$BaseUrl' is not https://; plain http is for this machine alone."
    }
    if ($Version -notmatch '^[A-Za-z0-9.+-]*$') { throw "'$Version' is no version." }
    # Windows on ARM runs programs for x64.
    if (-not [Environment]::Is64BitOperatingSystem) { throw 'There is no binary for 32-bit Windows.' }
    # Windows PowerShell 5 does not offer it by itself on older systems.
    [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12

    $receipts = Join-Path $Prefix 'share\gdn'
    $work = Join-Path $receipts (".install-" + [Guid]::NewGuid())
    New-Item -ItemType Directory -Force -Path $work, (Join-Path $Prefix 'bin') | Out-Null
    try {
        $sums = Join-Path $work 'sums'
        $where = if ($Version) { "download/v$Version" } else { 'latest/download' }
        Invoke-WebRequest -UseBasicParsing -Uri "$BaseUrl/$where/SHA256SUMS" -OutFile $sums
        $pattern = '^([0-9a-f]{64})  (gdn-([0-9A-Za-z.+-]+)-(x86_64-pc-windows-(?:msvc|gnu))\.zip)$'
        $line = Get-Content $sums | Select-String -Pattern $pattern | Select-Object -First 1
        if (-not $line) { throw "$BaseUrl has no binary for Windows." }
        $expected, $file, $found, $target = $line.Matches[0].Groups[1..4].Value
        if ($Version -and $found -ne $Version) { throw "$BaseUrl has version $found where $Version was asked for." }

        Write-Host "Downloading $file"
        $archive = Join-Path $work $file
        Invoke-WebRequest -UseBasicParsing -Uri "$BaseUrl/download/v$found/$file" -OutFile $archive
        $is = (Get-FileHash -Algorithm SHA256 $archive).Hash.ToLowerInvariant()
        if ($is -ne $expected) { throw "The checksum of $file is $is and should be $expected; nothing was installed." }
        Expand-Archive -Path $archive -DestinationPath $work
        $new = Join-Path $work "gdn-$found-$target"
        $said = & (Join-Path $new 'bin\gdn.exe') --version
        if ($said -ne "gdn $found") { throw "The binary does not run here: $said" }

        Copy-Item -Recurse -Force (Join-Path $new 'share\*') (Join-Path $Prefix 'share')
        $binary = Join-Path $Prefix 'bin\gdn.exe'
        $old = "$binary.old"
        if (Test-Path $old) { Remove-Item -Force -ErrorAction SilentlyContinue $old }
        # A program that runs can be renamed, but not replaced.
        if (Test-Path $binary) { Move-Item -Force $binary $old }
        try {
            Move-Item -Force (Join-Path $new 'bin\gdn.exe') $binary
        } catch {
            if (Test-Path $old) { Move-Item -Force $old $binary }
            throw
        }
        if (Test-Path $old) { Remove-Item -Force -ErrorAction SilentlyContinue $old }
        $receipt = [ordered]@{ version = $found; target = $target; base = $BaseUrl } | ConvertTo-Json
        [IO.File]::WriteAllText((Join-Path $receipts 'receipt.json'), $receipt)
        Write-Host "Installed gdn $found as $binary"
    } finally {
        Remove-Item -Recurse -Force -ErrorAction SilentlyContinue $work
    }

    $bin = Join-Path $Prefix 'bin'
    if (($env:Path -split ';') -notcontains $bin) {
        Write-Host "Add it to your PATH: [Environment]::SetEnvironmentVariable('Path', '$bin;' + [Environment]::GetEnvironmentVariable('Path', 'User'), 'User')"
    }
    Write-Host 'Try it: gdn init my-swarm; gdn run my-swarm --input "Hello"'
}

Install-Gdn -Prefix $Prefix -Version $Version -BaseUrl $BaseUrl
