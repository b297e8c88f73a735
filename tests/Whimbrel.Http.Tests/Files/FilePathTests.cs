using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Files;

// File names derived from request paths: known path traversal attacks, and similar but harmless paths.
public sealed class FilePathTests
{
    // Variants of a ".." segment.
    private static readonly string[] s_steps =
    [
        "..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "..;", "%2e%2e;x=1", "..%00", "..%2f", "..%2F", "..%5c", "..%5C",
        "%2e%2e%2f", "%2e%2e%5c", "..\\", "%c0%ae%c0%ae", "%c0%2e%c0%2e",
        "%e0%80%ae%e0%80%ae", "%f0%80%80%ae%f0%80%80%ae", "%c0%af", "%c1%9c", "..%c0%af", "..%c1%9c", "..%e0%80%af",
        "..%01", "..%0a", "..%0d%0a", "..%7f", ".", "%2e", "./", "%2e/", "...", "..%20", "..%2e", "..a", ". .",
    ];

    public static TheoryData<string> Attacks()
    {
        TheoryData<string> attacks = [];
        foreach (string step in s_steps)
        {
            foreach (string form in (string[])["{0}/etc/passwd", "a/{0}/secret", "a/b/{0}", "{0}"])
                attacks.Add(string.Format(System.Globalization.CultureInfo.InvariantCulture, form, step));
        }

        foreach (string alone in (string[])
        [
            "/etc/passwd", "//etc/passwd", "a//b", "%2fetc/passwd", "a%2fb", "a%2Fb", "a%5cb", "a\\b", "\\etc\\passwd",
            "a%00.html", "a.html%00", "%00", "a%0ab", "a%0d%0aX:%20y", "a%1f", "a%7f", "%ff", "%80", "a%c3",
            "%ed%a0%80",
            "%f4%90%80%80", "%fe%fe", ".git/config", "a/.git/config", ".htpasswd", "%2egit/config", "a/%2ehidden",
            "..a", "a/b/.c", ".", "a/.", "a/..", "~/../x", "a/../../../../../../etc/shadow",
        ]) attacks.Add(alone);
        return attacks;
    }

    [Theory, MemberData(nameof(Attacks))]
    public void A_path_that_is_no_plain_name_is_refused(string path) => Assert.Null(Read(path));

    [Fact]
    public void The_attacks_are_many() => Assert.InRange(Attacks().Count, 150, 1000);

    [Theory, MemberData(nameof(Attacks))]
    public void With_dots_allowed_a_path_is_refused_or_names_what_lies_below(string path)
    {
        if (Read(path, allowsDots: true) is not { } name) return;
        Assert.DoesNotContain('\\', name);
        Assert.DoesNotContain(name.Split('/'), static segment => segment is "." or "..");
        Assert.DoesNotContain("//", name, StringComparison.Ordinal);
        Assert.False(name.StartsWith('/'));
        Assert.StartsWith("/served/", Path.GetFullPath("/served/" + name) + "/", StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("", "")]
    [InlineData("a", "a")]
    [InlineData("a/b/c.html", "a/b/c.html")]
    [InlineData("a/", "a/")]
    [InlineData("a%20b", "a b")]
    [InlineData("a%2Eb", "a.b")]
    [InlineData("a..b", "a..b")]
    [InlineData("a...", "a...")]
    [InlineData("%252e%252e", "%2e%2e")] // decoded once: a strange name, and no step
    [InlineData("%25", "%")]
    [InlineData("%C3%A4.txt", "ä.txt")]
    [InlineData("%F0%9F%A6%9C", "🦜")]
    [InlineData("a:b", "a:b")]
    [InlineData("a%3fb%23c", "a?b#c")]
    public void A_plain_name_is_what_it_says(string path, string name) => Assert.Equal(name, Read(path));

    [Theory]
    [InlineData(".well-known/acme", ".well-known/acme")]
    [InlineData(".git", ".git")]
    [InlineData("...", "...")]
    [InlineData("a/.b/c", "a/.b/c")]
    public void Names_that_begin_with_a_dot_are_names_when_they_are_allowed(string path, string name)
    {
        Assert.Equal(name, Read(path, allowsDots: true));
        Assert.Null(Read(path));
    }

    [Theory]
    [InlineData("c:/windows")]
    [InlineData("a.txt::$DATA")]
    [InlineData("a.txt.")]
    [InlineData("a.txt%20")]
    [InlineData("a./b")]
    [InlineData("con")]
    [InlineData("CON.txt")]
    [InlineData("a/nul")]
    [InlineData("aux.html")]
    [InlineData("prn")]
    [InlineData("com1")]
    [InlineData("LPT9.log")]
    [InlineData("com%C2%B9")]
    [InlineData("conin$")]
    [InlineData("CONOUT$.x")]
    public void Names_with_another_meaning_on_Windows_are_refused_there(string path)
    {
        Assert.Null(Read(path, isWindows: true));
        Assert.NotNull(Read(path));
    }

    [Theory]
    [InlineData("console")]
    [InlineData("common.css")]
    [InlineData("auxiliary")]
    [InlineData("a.b.c")]
    public void Names_that_only_look_like_devices_are_served_on_Windows(string path) =>
        Assert.Equal(path, Read(path, isWindows: true));

    internal static string? Read(string path, bool allowsDots = false, bool isWindows = false)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(path), name = new byte[bytes.Length];
        if (!FilePath.TryRead(bytes, name, allowsDots, isWindows, out int length)) return null;
        return Encoding.UTF8.GetString(name, 0, length);
    }
}
