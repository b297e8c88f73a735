namespace Whimbrel.Compat.Links;

/// <summary>How far a <see cref="Link"/> is with telling Disconnecting of its connection.</summary>
internal enum Farewell : byte
{
    IsNotTold,
    IsBeingTold,
    IsTold,
}
