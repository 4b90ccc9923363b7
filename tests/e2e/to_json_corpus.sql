-- Values whose JSON must be what PostgreSQL's to_json prints: one expression per line.
-- The types that they need are made by to_json_setup.sql, one statement per line.
-- Sessions: client_encoding=UTF8, DateStyle=ISO, bytea_output=hex, extra_float_digits=1, IntervalStyle=postgres.
--
--
-- integers
0::int2
32767::int2
(-32768)::int2
2147483647::int4
(-2147483648)::int4
9223372036854775807::int8
(-9223372036854775808)::int8
9007199254740993::int8
NULL::int4
4294967295::oid
-- numeric
0::numeric
0.00::numeric
(-0.000001)::numeric
1234567890123456789012345678901234567890.123456789::numeric
(-99999999999999999999999999999999999999999999)::numeric
1e-30::numeric
1e100::numeric
'NaN'::numeric
'Infinity'::numeric
'-Infinity'::numeric
12.50::numeric(10,2)
-- floats
0::float8
'-0'::float8
1.5::float4
3.4028235e38::float4
1.17549435e-38::float4
1.7976931348623157e308::float8
5e-324::float8
1e15::float8
1e16::float8
1e-5::float8
0.1::float8 + 0.2::float8
'NaN'::float4
'Infinity'::float4
'-Infinity'::float4
'NaN'::float8
'Infinity'::float8
'-Infinity'::float8
-- bool
true
false
NULL::bool
-- text
''::text
'plain'::text
'with "quotes" and \ and /'::text
E'controls \b\f\n\r\t\u0001\u001f\u007f'::text
E'separators \u2028\u2029 \ufeff'::text
'ünï — 日本語 — 😀 — привет'::text
repeat('x', 10000)
repeat(E'\\"\n', 3000)
repeat('ü', 5000)
repeat('a', 15) || '"'
repeat('a', 16) || '"'
repeat('a', 15) || 'é' || repeat('b', 20)
'null'::text
'true'::text
'123'::text
'</script>'::text
'abc'::varchar(10)
'abc'::char(10)
'abc'::name
'a'::"char"
'Case'::citext
'cstring'::cstring
-- dates and times
'2024-02-29'::date
'infinity'::date
'-infinity'::date
'0044-03-15 BC'::date
'12345-06-07'::date
'4713-01-01 BC'::date
'2024-02-29 12:34:56'::timestamp
'2024-02-29 12:34:56.789'::timestamp
'2024-02-29 00:00:00.000001'::timestamp
'infinity'::timestamp
'-infinity'::timestamp
'0044-03-15 12:00:00 BC'::timestamp
'12345-06-07 12:34:56.5'::timestamp
'294276-12-31 23:59:59.999999'::timestamp
'2024-02-29 12:34:56+00'::timestamptz
'2024-02-29 12:34:56.123456-11:30'::timestamptz
'infinity'::timestamptz
'-infinity'::timestamptz
'0044-03-15 12:00:00+00 BC'::timestamptz
'1850-01-01 00:00:00+00'::timestamptz
'12345-06-07 12:34:56+00'::timestamptz
'12:34:56.789'::time
'24:00:00'::time
'12:34:56+05:30'::timetz
'1 year 2 mons -3 days 04:05:06.7'::interval
'-00:00:01'::interval
-- bytes and bits
'\x'::bytea
'\xdeadbeef00ff'::bytea
decode(repeat('ab', 5000), 'hex')
B'10101'
B'101'::varbit(8)
-- json
'{"a": [1, 2, {"b": null}], "c": "\u00e9 \" \\ 😀"}'::json
E'{\n  "spaced" :  [ 1 ,\t2 ]\r\n}'::json
'"text"'::json
'null'::json
'1e400'::json
'{"b":1,"a":2,"b":3}'::jsonb
'{"deep":[[[[[[[[[[[[[[[[[[[[{"x":[]}]]]]]]]]]]]]]]]]]]]]}'::jsonb
(repeat('[', 500) || repeat(']', 500))::jsonb
'"ü\u2028"'::jsonb
'12345678901234567890.12345678901234567890'::jsonb
'[]'::jsonb
'{}'::jsonb
-- other scalars
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid
'$1,234.56'::money
'192.168.0.1/24'::inet
'::1'::inet
'10.0.0.0/8'::cidr
'08:00:2b:01:02:03'::macaddr
'08:00:2b:01:02:03:04:05'::macaddr8
'(1.5,-2)'::point
'((0,0),(1,1))'::box
'<(0,0),5>'::circle
'[(0,0),(1,1)]'::path
'{1,2,3}'::line
'a & !b'::tsquery
$$'a':1 'it''s "quoted"':2$$::tsvector
'<a href="x">y</a>'::xml
'16/B374D848'::pg_lsn
'pg_class'::regclass
'$."a"[*]'::jsonpath
'(0,1)'::tid
'42'::xid
-- enums and domains
'sad'::mood
'it''s "ok"'::mood
'null'::mood
'привет'::mood
5::positive
50::more_positive
-- ranges
'[1,10)'::int4range
'empty'::int4range
'[2024-01-01,)'::daterange
'["2024-01-01 00:00:00","2024-01-02 00:00:00")'::tsrange
'{[1,3),[5,7)}'::int4multirange
ARRAY['[1,2)'::int4range, NULL, 'empty']
-- arrays
'{}'::int4[]
ARRAY[1,2,3]
ARRAY[1,NULL,3]
ARRAY[[1,2],[3,4]]
ARRAY[[[1],[2]],[[3],[NULL::int4]]]
'[0:2]={1,2,3}'::int4[]
'[-1:0][2:3]={{1,2},{3,4}}'::int8[]
ARRAY[true,false,NULL]
ARRAY[1.5,'NaN','Infinity',NULL]::numeric[]
ARRAY[1.5,'NaN','-Infinity',1e100]::float8[]
ARRAY['a','b c','','NULL','null',NULL,'it''s','"q"','\','{','}',',',';',' ','ü😀']
ARRAY[E'\n\t\u0001','a\"b','\\']
ARRAY[['a','b'],['c',NULL]]
ARRAY[repeat('x"\', 3000)]
ARRAY['2024-02-29 12:34:56.5+00','infinity','0044-03-15 12:00:00+00 BC','1850-01-01 00:00:00+00']::timestamptz[]
ARRAY['2024-02-29','-infinity']::date[]
ARRAY['{"a": "b \" c"}','null','"s"',NULL,'[1,2]']::json[]
ARRAY['{"a": [1, "x"]}','null','3',NULL]::jsonb[]
ARRAY['\x00ff'::bytea,'\x']
ARRAY['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']::uuid[]
ARRAY['((0,0),(1,1))'::box,NULL,'((2,2),(3,3))']
ARRAY['(1,2)'::point,'(3,4)']
ARRAY['sad','it''s "ok"','null']::mood[]
ARRAY[1,2]::positive[]
ARRAY['2024-02-29 12:34:56+00']::stamps
ARRAY['1 day'::interval]
ARRAY['"a"=>"1, 2", "b"=>NULL'::hstore, '', NULL]
ARRAY['a','b']::name[]
ARRAY['x','y']::"char"[]
'1 2 3'::int2vector
''::int2vector
'1 2 4294967295'::oidvector
ARRAY['1 2'::int2vector]
(SELECT array_agg(i) FROM generate_series(1, 2000) i)
(SELECT array_agg(i::text || '"') FROM generate_series(1, 2000) i)
-- composites
ROW(1,'x')::pair
ROW(NULL,NULL)::pair
ROW(NULL,'')::pair
ROW(1,'a "quoted" \ , ( ) text')::pair
ROW(1,E'line\nbreak ü')::pair
NULL::pair
ROW(1,'x')::pair_domain
ARRAY[ROW(1,'x')::pair, NULL, ROW(NULL,'a"b\c')::pair]
ARRAY[ARRAY[ROW(1,'{x}')::pair],ARRAY[ROW(2,'"')::pair]]
ARRAY[ROW(1,'x')]::pairs_domain
ROW(1,'n',2.50,'NaN',true,'2024-02-29 12:34:56+00','2024-02-29','{"k":["v\"",1]}','{"r": null}',ARRAY['t"1','t\2',NULL],'sad',ROW(7,'in"ner'),ARRAY[ROW(8,'deep\"er')::pair,NULL],11,ARRAY['2024-01-01'],ARRAY['((0,0),(1,1))'::box,'((2,2),(3,3))'],'\xff',NULL)::everything
ARRAY[ROW(1,'n',2.50,'Infinity',false,'infinity','-infinity','[]','"x,)"',ARRAY[['a','b'],['c','d']],'it''s "ok"',ROW(7,NULL),ARRAY[ROW(NULL,'\\"')::pair],NULL,NULL,NULL,'\x','1')::everything]
ROW()::empty_type
(SELECT d FROM dropped d WHERE id = 1)
(SELECT d FROM dropped d WHERE id = 2)
(SELECT array_agg(d ORDER BY id) FROM dropped d)
-- hstore
'"a"=>"1", "b c"=>NULL, "q\""=>"x\\y", "n"=>"NULL", "e"=>""'::hstore
''::hstore
'"ключ"=>"значение"'::hstore
