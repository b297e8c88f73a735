using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool.Tests;

public sealed class CertsTests : IDisposable
{
    private const string ServerUse = "1.3.6.1.5.5.7.3.1";
    private const string ClientUse = "1.3.6.1.5.5.7.3.2";

    private readonly TemporaryFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task One_command_makes_an_authority_a_server_and_a_client()
    {
        List<string> output = await MakeAsync();
        Assert.Equal(["ca.key", "ca.pem", "client.key", "client.pem", "client.pfx", "server.key", "server.pem",
            "server.pfx"], Files());
        using X509Certificate2 ca = Read("ca");
        Assert.Contains(output, line => line.StartsWith($"made   {_folder["ca.pem"]}: authority; P-256, until ",
            StringComparison.Ordinal) && line.EndsWith(Fingerprint(ca), StringComparison.Ordinal));
        foreach ((string name, string use) in (ReadOnlySpan<(string, string)>)[("server", ServerUse),
            ("client", ClientUse)])
        {
            using X509Certificate2 certificate = Read(name);
            Assert.Empty(ChainErrors(certificate, ca, use));
            Assert.Contains(X509ChainStatusFlags.NotValidForUsage,
                ChainErrors(certificate, ca, use == ServerUse ? ClientUse : ServerUse));
            Assert.Equal("1.2.840.10045.2.1", certificate.PublicKey.Oid.Value);
            Assert.Equal(256, certificate.GetECDsaPublicKey()!.KeySize);
        }

        using X509Certificate2 server = Read("server");
        foreach (string host in (ReadOnlySpan<string>)["localhost", "127.0.0.1", "::1"])
            Assert.True(server.MatchesHostname(host), host);
        Assert.False(server.MatchesHostname("example.org"));
    }

    [Fact]
    public async Task A_key_file_is_for_its_owner_only()
    {
        await MakeAsync();
        if (OperatingSystem.IsWindows())
        {
            Assert.Skip("File modes need a Unix system.");
            return;
        }

        foreach (string file in Files())
        {
            UnixFileMode forOthers =
                File.GetUnixFileMode(_folder[file]) & ~(UnixFileMode.UserRead | UnixFileMode.UserWrite);
            if (!file.EndsWith(".pem", StringComparison.Ordinal)) Assert.Equal(UnixFileMode.None, forOthers);
        }
    }

    [Theory]
    [InlineData("", "id-ecPublicKey", "prime256v1")]
    [InlineData("--rsa", "rsaEncryption", "Public-Key: (2048 bit)")]
    public async Task OpenSSL_agrees_with_every_certificate(string keys, params string[] expected)
    {
        OtherProgram.Needs("openssl");
        await MakeAsync([.. keys.Length > 0 ? (string[])[keys] : [], "--san", "chat.example,*.chat.example", "--san",
            "10.1.2.3", "--san", "2001:db8::7", "--client", "anna"]);
        await OpenSslAsync("OK", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname",
            "any.chat.example", "-CAfile", _folder["ca.pem"], _folder["server.pem"]);
        await OpenSslAsync("OK", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_ip", "2001:db8::7",
            "-CAfile", _folder["ca.pem"], _folder["server.pem"]);
        await OpenSslAsync("OK", "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", _folder["ca.pem"],
            _folder["anna.pem"]);
        await OpenSslAsync("unsuitable certificate purpose", "verify", "-purpose", "sslserver", "-CAfile",
            _folder["ca.pem"], _folder["anna.pem"]);
        await OpenSslAsync("hostname mismatch", "verify", "-verify_hostname", "chat.example.org", "-CAfile",
            _folder["ca.pem"], _folder["server.pem"]);

        string text = await OpenSslAsync("Signature Algorithm", "x509", "-noout", "-text", "-in",
            _folder["server.pem"]);
        foreach (string each in (string[])[.. expected,
            "DNS:chat.example, DNS:*.chat.example, IP Address:10.1.2.3, IP Address:2001:DB8:0:0:0:0:0:7",
            "TLS Web Server Authentication", "CA:FALSE", "Subject: CN = chat.example"])
            Assert.Contains(each, text, StringComparison.Ordinal);
        text = await OpenSslAsync("TLS Web Client Authentication", "x509", "-noout", "-text", "-in",
            _folder["anna.pem"]);
        Assert.Contains("Subject: CN = anna", text, StringComparison.Ordinal);
        Assert.Contains("CA:TRUE, pathlen:0", await OpenSslAsync("Certificate Sign, CRL Sign", "x509", "-noout",
            "-text", "-in", _folder["ca.pem"]), StringComparison.Ordinal);
        await OpenSslAsync("MAC: sha256", "pkcs12", "-info", "-noout", "-passin", "pass:", "-in",
            _folder["server.pfx"]);

        // Each key matches its certificate.
        foreach (string name in (string[])["ca", "server", "anna"])
        {
            string ofKey = await OpenSslAsync("BEGIN PUBLIC KEY", "pkey", "-pubout", "-in", _folder[name + ".key"]);
            Assert.Equal(ofKey,
                await OpenSslAsync("BEGIN PUBLIC KEY", "x509", "-pubkey", "-noout", "-in", _folder[name + ".pem"]));
        }
    }

    [Fact]
    public async Task Certificates_last_as_long_as_requested_and_never_longer_than_their_authority()
    {
        DateTime now = DateTime.UtcNow;
        await MakeAsync("--days", "30");
        Assert.Equal(30, DaysLeft("server"), 0.1);
        Assert.Equal(30, DaysLeft("client"), 0.1);
        Assert.Equal(3650, DaysLeft("ca"), 0.1);
        using (X509Certificate2 server = Read("server"))
            Assert.InRange(server.NotBefore.ToUniversalTime(), now.AddHours(-2), now);

        (int code, _, List<string> errors) = await CertsAsync("--days", "5000", "--client", "long");
        Assert.Equal(0, code);
        Assert.Contains("long.pem ends with its authority, before 5000 days have passed", Assert.Single(errors),
            StringComparison.Ordinal);
        Assert.Equal(3650, DaysLeft("long"), 0.1);

        double DaysLeft(string name)
        {
            using X509Certificate2 certificate = Read(name);
            return (certificate.NotAfter.ToUniversalTime() - now).TotalDays;
        }
    }

    [Fact]
    public async Task A_bundle_and_keys_with_a_password_open_with_it_and_not_without()
    {
        await File.WriteAllTextAsync(_folder["secret"], "grüner Tee\nsecond line\n",
            TestContext.Current.CancellationToken);
        await MakeAsync("--password-file", _folder["secret"]);
        X509Certificate2Collection bundle = X509CertificateLoader.LoadPkcs12CollectionFromFile(_folder["server.pfx"],
            "grüner Tee");
        Assert.Equal(2, bundle.Count);
        Assert.True(Assert.Single(bundle, static c => c.HasPrivateKey).MatchesHostname("localhost"));
        Assert.ThrowsAny<CryptographicException>(() => X509CertificateLoader.LoadPkcs12FromFile(_folder["server.pfx"],
            "black tea"));
        Assert.ThrowsAny<CryptographicException>(
            () => X509CertificateLoader.LoadPkcs12FromFile(_folder["server.pfx"], null));
        foreach (string key in (string[])["ca.key", "server.key", "client.key"])
            Assert.StartsWith("-----BEGIN ENCRYPTED PRIVATE KEY-----", await File.ReadAllTextAsync(_folder[key],
                TestContext.Current.CancellationToken), StringComparison.Ordinal);
        using (X509Certificate2 server = X509Certificate2.CreateFromEncryptedPemFile(_folder["server.pem"],
            "grüner Tee", _folder["server.key"]))
            Assert.True(server.HasPrivateKey);

        (int code, _, List<string> errors) = await CertsAsync("--client", "anna");
        Assert.Equal(1, code);
        Assert.Contains("its key is encrypted, and no password was given", Assert.Single(errors),
            StringComparison.Ordinal);
        (code, _, errors) = await CertsAsync("--client", "anna", "--password", "wrong");
        Assert.Equal(1, code);
        Assert.Contains("cannot be used", Assert.Single(errors), StringComparison.Ordinal);
        Assert.Equal(0, (await CertsAsync("--client", "anna", "--password", "grüner Tee")).ExitCode);

        // With the wrong password the server reports the cause, not an invalid key.
        foreach ((string[] password, string why) in ((string[], string)[])[(["--password", "black tea"],
            "the password does not open its key"), ([], "its key is encrypted, and no password was given")])
        {
            (code, _, errors) = await RunningTool.Run(null, ["serve", "echo", "--port", "0", "--tls", "--cert",
                _folder["server.pem"], "--key", _folder["server.key"], .. password]);
            Assert.Equal(1, code);
            Assert.Contains(errors, line => line.Contains(why, StringComparison.Ordinal));
        }
    }

    [Fact]
    public async Task The_authority_that_is_there_signs_what_comes_later()
    {
        await MakeAsync();
        byte[] caBefore = await BytesAsync("ca.pem"), serverBefore = await BytesAsync("server.pem");
        List<string> output = await MakeAsync("--client", "anna,bert");
        Assert.Contains(output, line => line.StartsWith($"used   {_folder["ca.pem"]}: ", StringComparison.Ordinal));
        Assert.Contains(output, line => line.StartsWith($"kept   {_folder["server.pem"]}, ", StringComparison.Ordinal));
        Assert.Equal(caBefore, await BytesAsync("ca.pem"));
        Assert.Equal(serverBefore, await BytesAsync("server.pem"));
        using X509Certificate2 ca = Read("ca");
        foreach (string name in (string[])["anna", "bert"])
        {
            using X509Certificate2 certificate = Read(name);
            Assert.Empty(ChainErrors(certificate, ca, ClientUse));
        }

        // An authority with one type of key signs for another type.
        await MakeAsync("--client", "carl", "--rsa");
        using X509Certificate2 carl = Read("carl");
        Assert.Empty(ChainErrors(carl, ca, ClientUse));
        Assert.Equal(2048, carl.GetRSAPublicKey()!.KeySize);
    }

    [Fact]
    public async Task Nothing_is_overwritten_without_force_and_the_authority_not_even_with_it()
    {
        await MakeAsync();
        Dictionary<string, byte[]> before = await AllBytesAsync();
        (int code, List<string> output, List<string> errors) = await CertsAsync("--san", "chat.example");
        Assert.Equal(1, code);
        Assert.Empty(output);
        Assert.Contains("server.pfx are there already. --force replaces", Assert.Single(errors),
            StringComparison.Ordinal);
        Assert.Equal(1, (await CertsAsync("--new-ca")).ExitCode);
        Assert.Equal(before, await AllBytesAsync());

        // With --force and a name, this certificate is replaced, and no other.
        await MakeAsync("--san", "chat.example", "--force");
        Dictionary<string, byte[]> after = await AllBytesAsync();
        foreach (string file in before.Keys)
            Assert.Equal(!file.StartsWith("server", StringComparison.Ordinal),
                before[file].AsSpan().SequenceEqual(after[file]));

        // A file that is kept anyway names the option that replaces it, not the option that was given.
        List<string> forced = await MakeAsync("--client", "anna", "--force");
        Assert.Contains(forced, line => line.StartsWith("kept ", StringComparison.Ordinal)
            && line.EndsWith("(--server server makes another one, too)", StringComparison.Ordinal));
        Assert.Contains(await MakeAsync("--client", "anna", "--server", "server", "--force"),
            line => line.StartsWith($"made   {_folder["server.pem"]}", StringComparison.Ordinal));
        foreach (string file in (string[])["anna.pem", "anna.key", "anna.pfx"]) File.Delete(_folder[file]);

        // A new authority removes everything that the old one signed.
        await MakeAsync("--new-ca", "--force");
        using X509Certificate2 ca = Read("ca"), server = Read("server"), client = Read("client");
        Assert.NotEqual(after["ca.pem"], await BytesAsync("ca.pem"));
        Assert.Empty(ChainErrors(server, ca, ServerUse));
        Assert.Empty(ChainErrors(client, ca, ClientUse));
        Assert.Equal(before.Keys.Order(), Files());
    }

    [Theory]
    [InlineData("/proc/nope", "the file system there takes no folders")]
    [InlineData("/etc/passwd", "/etc/passwd is a file")]
    [InlineData("/etc/passwd/below", "/etc/passwd is a file")]
    public async Task A_folder_that_cannot_be_created_is_reported_clearly(string folder, string why)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test uses Linux paths.");
        (int code, List<string> output, List<string> errors) = await RunningTool.Run(null, ["certs", "--out", folder]);
        Assert.Equal(1, code);
        Assert.Empty(output);
        Assert.Equal($"whimbrel: The folder {folder} cannot be made: {why}. --out takes another one.",
            Assert.Single(errors));
    }

    [Theory]
    [InlineData("is missing, and nothing can be signed without it", false)]
    [InlineData("does not match", true)]
    public async Task An_authority_that_cannot_sign_is_reported_as_such(string expected, bool wrongKey)
    {
        await MakeAsync();
        if (wrongKey) File.Copy(_folder["server.key"], _folder["ca.key"], overwrite: true);
        else File.Delete(_folder["ca.key"]);
        (int code, _, List<string> errors) = await CertsAsync("--client", "anna");
        Assert.Equal(1, code);
        Assert.Contains(expected, Assert.Single(errors), StringComparison.Ordinal);
        Assert.False(File.Exists(_folder["anna.pem"]));
    }

    [Theory]
    [InlineData("--san: 'chat.example:443' is neither an IP address nor a name: leave out the port.", "--san",
        "chat.example:443")]
    [InlineData("--san: '127.1' is neither an IP address", "--san", "127.1")]
    [InlineData("--san: '*.com' is neither a DNS name", "--san", "*.com")]
    [InlineData("--san: 'a..b' is neither a DNS name", "--san", "x.example,a..b")]
    [InlineData("--client takes a name of letters, digits and . _ - @ that begins with a letter or a digit, not "
        + "'../x'.", "--client", "../x")]
    [InlineData("'ca' names the files of two certificates.", "--client", "ca")]
    [InlineData("'server' names the files of two certificates.", "--client", "Server")]
    [InlineData("--rsa takes a number of bits from 2048 to 8192 that is a multiple of 8, not '1024'.", "--rsa", "1024")]
    [InlineData("--days takes a number from 1 to 36500, not '0'.", "--days", "0")]
    [InlineData("Give --password or --password-file, not both.", "--password", "a", "--password-file", "b")]
    public async Task Wrong_arguments_give_one_line_that_says_what_is_right(string expected, params string[] arguments)
    {
        await RunningTool.AssertRefused(expected, "whimbrel certs ", ["certs", "--out", _folder.Path, .. arguments]);
        Assert.Empty(Files());
    }

    [Theory]
    [InlineData("Chat.EXAMPLE", "chat.example")]
    [InlineData("chat.example.", "chat.example")]
    [InlineData("bücher.example", "xn--bcher-kva.example")]
    [InlineData("*.bücher.example", "*.xn--bcher-kva.example")]
    [InlineData("[::1]", "::1")]
    [InlineData("010.1.1.1", null)]
    [InlineData("1", null)]
    [InlineData("a.*.example", null)]
    [InlineData("-a.example", null)]
    [InlineData("a b", null)]
    public void A_name_is_read_as_certificates_have_it(string text, string? expected) =>
        Assert.Equal(expected, SubjectName.Read(text, out _)?.Text);

    [Fact]
    public void Names_of_this_machine_are_those_that_reading_them_gives() =>
        Assert.Equal(SubjectName.OfThisMachine,
            SubjectName.OfThisMachine.Select(static n => SubjectName.Read(n.Text, out _)));

    private static string Fingerprint(X509Certificate2 certificate) =>
        BitConverter.ToString(SHA256.HashData(certificate.RawData)).Replace('-', ':');

    private static X509ChainStatusFlags[] ChainErrors(X509Certificate2 certificate,
        X509Certificate2 authority, string use)
    {
        using X509Chain chain = new();
        chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
        chain.ChainPolicy.CustomTrustStore.Add(authority);
        chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
        chain.ChainPolicy.DisableCertificateDownloads = true;
        chain.ChainPolicy.ApplicationPolicy.Add(new Oid(use));
        bool isGood = chain.Build(certificate);
        Assert.Equal(isGood, chain.ChainStatus.Length == 0);
        return [.. chain.ChainStatus.Select(static s => s.Status)];
    }

    private static async Task<string> OpenSslAsync(string expected, params string[] arguments)
    {
        (_, string output) = await OtherProgram.RunAsync("openssl", arguments);
        Assert.Contains(expected, output, StringComparison.Ordinal);
        return output;
    }

    private Task<(int ExitCode, List<string> Out, List<string> Error)> CertsAsync(params string[] arguments) =>
        RunningTool.Run(null, ["certs", "--out", _folder.Path, .. arguments]);

    private async Task<List<string>> MakeAsync(params string[] arguments)
    {
        (int code, List<string> output, List<string> errors) = await CertsAsync(arguments);
        Assert.Empty(errors);
        Assert.Equal(0, code);
        return output;
    }

    private string[] Files() => [.. Directory.GetFiles(_folder.Path).Select(static f => Path.GetFileName(f))
        .Order(StringComparer.Ordinal)];

    private X509Certificate2 Read(string name) => X509CertificateLoader.LoadCertificateFromFile(_folder[name + ".pem"]);

    private Task<byte[]> BytesAsync(string name) =>
        File.ReadAllBytesAsync(_folder[name], TestContext.Current.CancellationToken);

    private async Task<Dictionary<string, byte[]>> AllBytesAsync()
    {
        Dictionary<string, byte[]> all = [];
        foreach (string file in Files()) all[file] = await BytesAsync(file);
        return all;
    }
}
