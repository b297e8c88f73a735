namespace Whimbrel.Http.Parsing;

/// <summary>Position of a field in the bytes of its head.</summary>
/// <param name="NameStart">Offset of the name.</param>
/// <param name="ValueStart">Offset of the value, without surrounding spaces.</param>
/// <param name="ValueLength">Bytes of the value.</param>
/// <param name="NameLength">Bytes of the name.</param>
/// <param name="Field">Known field, or Other.</param>
internal readonly record struct HttpFieldPlace(int NameStart, int ValueStart, int ValueLength, ushort NameLength,
    HttpField Field);
