using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Parsing;

/// <summary> Reads messages as a session does: unconsumed bytes are passed again, followed by new ones. Records what it
/// read as text, so that two runs can be compared. </summary>
internal sealed class MessageDriver(HttpReaderLimits limits, bool isResponse = false)
{
    private readonly HttpReader _head = new();
    private readonly List<byte> _body = [];
    private byte[] _unread = [];
    private HttpBodyReader _reader;
    private bool _hasBegun;
    private bool _isInBody;

    /// <summary>The complete messages, one line each.</summary>
    internal List<string> Messages { get; } = [];

    internal HttpRule Rule { get; private set; }

    /// <summary>"Ok" if nothing is left over, "Wait" if a message is incomplete, otherwise the rule.</summary>
    internal string Outcome => Rule != HttpRule.None ? Rule.ToString()
        : _isInBody || _unread.Length > 0 || Messages.Count == 0 ? "Wait" : "Ok";

    internal void Feed(ReadOnlySpan<byte> bytes)
    {
        _unread = [.. _unread, .. bytes];
        int taken = 0;
        while (Rule == HttpRule.None && (_isInBody ? ReadBody(ref taken) : ReadHead(ref taken)))
        {
        }

        _unread = _unread[taken..];
    }

    private bool ReadHead(ref int taken)
    {
        ReadOnlySpan<byte> rest = _unread.AsSpan(taken);
        if (rest.IsEmpty) return false;
        if (!_hasBegun)
        {
            _hasBegun = true;
            if (isResponse) _head.BeginResponse(limits, answersHead: false);
            else _head.BeginRequest(limits);
        }

        HttpReading reading = _head.Read(rest);
        if (reading == HttpReading.Broken) Rule = _head.Rule;
        if (reading != HttpReading.Done) return false;
        Messages.Add(Describe(_head, rest));
        taken += _head.HeadLength;
        _reader = new HttpBodyReader(_head, limits);
        _isInBody = true;
        _body.Clear();
        return true;
    }

    private bool ReadBody(ref int taken)
    {
        ReadOnlySpan<byte> rest = _unread.AsSpan(taken);
        HttpReading reading = _reader.Read(rest, out int count);
        ReadOnlySpan<byte> piece = rest.Slice(_reader.Start,
            reading is HttpReading.Data or HttpReading.Done ? _reader.Length : 0);
        taken += count;
        switch (reading)
        {
            case HttpReading.Data:
                _body.AddRange(piece);
                return true;
            case HttpReading.Done:
                byte[] trailers = piece.ToArray();
                HttpLines.Unfold(trailers);
                Messages[^1] += $"|{Encoding.Latin1.GetString([.. _body])}|{Encoding.Latin1.GetString(trailers)}";
                _isInBody = _hasBegun = false;
                return true;
            case HttpReading.Broken:
                Rule = _reader.Rule;
                return false;
            default:
                return false;
        }
    }

    private static string Describe(HttpReader head, ReadOnlySpan<byte> unread)
    {
        Span<byte> bytes = unread[..head.HeadLength].ToArray();
        if (head.HasFolds) head.Unfold(bytes);
        StringBuilder text = new();
        if (head.IsResponse) text.Append(head.Status).Append(' ').Append(Encoding.Latin1.GetString(bytes[head.Reason]));
        else text.Append(Encoding.Latin1.GetString(bytes[head.Method])).Append(' ')
            .Append(Encoding.Latin1.GetString(bytes[head.Target]));
        text.Append(" 1.").Append(head.MinorVersion);
        for (int i = 0; i < head.Count; i++)
        {
            HttpFieldPlace place = head[i];
            text.Append('~').Append(Encoding.Latin1.GetString(bytes.Slice(place.NameStart, place.NameLength)));
            text.Append('=').Append(Encoding.Latin1.GetString(bytes.Slice(place.ValueStart, place.ValueLength)));
        }

        return text.ToString();
    }
}
