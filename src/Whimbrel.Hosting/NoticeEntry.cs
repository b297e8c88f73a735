using System.Collections;

namespace Whimbrel.Hosting;

/// <summary>A diagnostic event as a structured log entry: a text and named parts.</summary>
internal readonly struct NoticeEntry(DiagnosticEvent notice, int leftOut) : IReadOnlyList<KeyValuePair<string, object?>>
{
    public int Count => 5;

    public KeyValuePair<string, object?> this[int index] => index switch
    {
        0 => new("Kind", notice.Kind),
        1 => new("Message", notice.Message),
        2 => new("Page", notice.Page),
        3 => new("LeftOut", leftOut),
        4 => new("{OriginalFormat}", "{Message} ({Page})"),
        _ => throw new ArgumentOutOfRangeException(nameof(index)),
    };

    public IEnumerator<KeyValuePair<string, object?>> GetEnumerator()
    {
        for (int i = 0; i < Count; i++) yield return this[i];
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    public override string ToString() =>
        $"{notice.Message} {notice.Help}{(leftOut == 0 ? "" : $" ({leftOut} more of this kind were left out)")}";
}
