using System.Text;

namespace Whimbrel.Http;

/// <summary>Complete message.</summary>
/// <param name="Data">Payload; valid UTF-8 if it is text.</param>
/// <param name="IsText">Whether it is text.</param>
public readonly record struct WebSocketMessage(ReadOnlyMemory<byte> Data, bool IsText)
{
    /// <summary>Payload decoded as UTF-8, for text and binary messages.</summary>
    public string Text => Encoding.UTF8.GetString(Data.Span);

    /// <summary>Returns the text or the length, for logs.</summary>
    public override string ToString() => IsText ? Text : $"{Data.Length} bytes";
}
