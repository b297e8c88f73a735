using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// Subjects of a broker from group names. Bytes of UTF-8 that may have a special meaning are written as = and two hex
/// digits.
/// </summary>
internal static class Subjects
{
    internal static bool IsPlain(string? name) =>
        name is { Length: >= 1 and <= 64 } && name.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_');

    /// <summary>Returns the subject for messages between nodes: announcements, questions, presence.</summary>
    internal static string OfNodes(string application) => $"{application}.nodes";

    internal static string OfGroup(string application, string group) => Make(application, "group", group);

    /// <summary>Returns the subject of a recoverable group's stream and of its announcements.</summary>
    internal static string OfHistory(string application, string group) => Make(application, "history", group);

    private static string Make(string application, string part, string group)
    {
        StringBuilder subject = new($"{application}.{part}.", application.Length + 9 + (2 * group.Length));
        foreach (byte b in Encoding.UTF8.GetBytes(group))
        {
            if (char.IsAsciiLetterOrDigit((char)b) || b is (byte)'-' or (byte)'_') subject.Append((char)b);
            else subject.Append('=').Append(b.ToString("X2", System.Globalization.CultureInfo.InvariantCulture));
        }

        return subject.ToString();
    }
}
