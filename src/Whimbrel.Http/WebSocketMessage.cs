using System.Text;

namespace Whimbrel.Http;

/// <summary>A message, whole.</summary>
/// <param name="Data">Its bytes; of text they are valid UTF-8.</param>
/// <param name="IsText">It is text.</param>
public readonly record struct WebSocketMessage(ReadOnlyMemory<byte> Data, bool IsText)
{
    /// <summary>The bytes as text, whichever it was sent as.</summary>
    public string Text => Encoding.UTF8.GetString(Data.Span);

    /// <summary>For logs.</summary>
    public override string ToString() => IsText ? Text : $"{Data.Length} bytes";
}
