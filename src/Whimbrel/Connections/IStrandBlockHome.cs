namespace Whimbrel.Connections;

/// <summary>Where a block goes when nobody looks at it any more.</summary>
internal interface IStrandBlockHome
{
    /// <summary>Any thread.</summary>
    void Return(StrandBlock block);
}
