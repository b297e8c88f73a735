using System.Security.Cryptography;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>Page of the chat: one file that loads nothing else. Its policy allows the browser to run this script
/// only.</summary>
internal static class ChatPage
{
    private static readonly byte[] s_page = Read();
    private static readonly string s_tag = $"\"{Convert.ToHexStringLower(SHA256.HashData(s_page).AsSpan(0, 12))}\"";
    private static readonly string s_policy =
        $"default-src 'none'; script-src {HashOf("<script>", "</script>")}; style-src {HashOf("<style>", "</style>")}; "
        + $"connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    internal static void Answer(HttpRequest request, HttpResponse response)
    {
        response.Add("Content-Security-Policy", s_policy);
        response.Add("X-Content-Type-Options", "nosniff");
        response.Add("Cache-Control", "no-cache");
        response.MayCompress = true; // it contains no secret
        if (response.MeetsConditions(s_tag)) response.Bytes(s_page, "text/html; charset=utf-8"u8);
    }

    private static byte[] Read()
    {
        using Stream resource = typeof(ChatPage).Assembly.GetManifestResourceStream("chat.html")!;
        byte[] page = new byte[resource.Length];
        resource.ReadExactly(page);
        return page;
    }

    private static string HashOf(string start, string end)
    {
        string page = Encoding.UTF8.GetString(s_page);
        int from = page.IndexOf(start, StringComparison.Ordinal) + start.Length,
            to = page.IndexOf(end, StringComparison.Ordinal);
        return $"'sha256-{Convert.ToBase64String(SHA256.HashData(Encoding.UTF8.GetBytes(page[from..to])))}'";
    }
}
